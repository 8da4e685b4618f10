"""Files of each format: the same text gives the same file, and broken files are refused."""

import io
import random
import re
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from mtkit.documents.document import LanguageCodes, TextTranslator, TranslatedText
from mtkit.documents.translate_file import check_output_path, translate_content, translate_file
from mtkit.errors import MtkitError
from mtkit.text.xml_tokens import read_xml_tokens

from .translators import keep_text, reverse_words

LANGUAGES = LanguageCodes("en", "de")
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_T = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_WORD = (
    f'<w:document xmlns:w="{_W}"><w:body><w:p w:rsidR="1"><w:pPr><w:jc/></w:pPr><w:r w:rsidR="2">'
    '<w:t xml:space="preserve">The old </w:t></w:r><w:r><w:t>man</w:t></w:r><w:r><w:rPr><w:b/>'
    '</w:rPr><w:t xml:space="preserve"> sings</w:t></w:r><w:bookmarkStart w:id="0"/><w:hyperlink>'
    '<w:r><w:t xml:space="preserve"> loud</w:t></w:r><w:r><w:rPr><w:i/></w:rPr><w:t>ly</w:t></w:r>'
    "</w:hyperlink><w:r><w:t>.</w:t><w:tab/><w:t>After &amp; tab</w:t></w:r><w:r><w:drawing><w:p>"
    "<w:r><w:t>inner box</w:t></w:r></w:p></w:drawing></w:r></w:p></w:body></w:document>"
)
_SLIDE = (
    f'<p:sld xmlns:p="p" xmlns:a="{_A}"><a:p><a:r><a:rPr lang="en"/><a:t>A big </a:t></a:r><a:r>'
    '<a:rPr lang="de" b="1"/><a:t>dog</a:t></a:r><a:br/><a:r><a:t>runs</a:t></a:r></a:p></p:sld>'
)
_TEXT = (
    f'<o:x xmlns:o="o" xmlns:text="{_T}"><text:h>Head <text:span a="b">line</text:span></text:h>'
    "<text:p>A<text:note><text:note-body><text:p>The note</text:p></text:note-body></text:note> big"
    '<text:s/> <text:a h="1"><text:span>dog</text:span></text:a>.</text:p></o:x>'
)


def pack(**parts: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return stream.getvalue()


def unpack(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


DOCUMENTS: dict[str, bytes] = {
    "text": b"Hello there\r\nthe dog.\r\n\r\n  * item one\r\nA",
    "html": "<p>Hé <b>l</b>&nbsp;o".encode(),
    "xml": (
        '<?xml version="1.0"?><!DOCTYPE b PUBLIC "x" "y"><b><t>A <em>b</em>&nbsp;ö</t><p>Hi <x/> '
        "there <![CDATA[<raw>]]> &lt; q</p><code>no</code><q>\n two &#x20AC; <e>w </e></q></b>"
    ).encode(),
    "srt": b"1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i>\nthere {\\an8}dog\n\n2\n"
    b"00:00:03,000 --> 00:00:04,000\nbye & <hi\n",
    "vtt": b"WEBVTT\n\nNOTE x\n\n00:01.000 --> 00:02.000 align:left\n<v Bob>Hi &amp; bye</v>\n",
    "json": b'{"a": ["Hi \\"you\\"\\nline", 1], "b\\u00e9": "caf\\u00e9 \\ud83d\\ude00 x"}',
    "markdown": b"# A *b*\r\n\n* two  \r\n  dogs [x](y)\n",
    "yaml": b"a: 'It''s'  # c\nb: [x y, 1]\n",
    "docx": pack(**{"word/document.xml": _WORD, "word/vbaProject.bin": "macro"}),
    "pptx": pack(**{"ppt/presentation.xml": "<a/>", "ppt/slides/slide1.xml": _SLIDE}),
    "odt": pack(mimetype="application/vnd.oasis.opendocument.text", **{"content.xml": _TEXT}),
}
_PO = b"""msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#, fuzzy
msgid "a cat"
msgstr "ein Kater"

msgid ""
"Hello \\"big\\"\\n"
"world"
msgstr ""

msgid "one dog"
msgid_plural "two dogs"
msgstr[0] ""
msgstr[1] ""
"""


@pytest.mark.parametrize("form", DOCUMENTS)
def test_the_same_text_gives_the_same_file(form: str) -> None:
    content = DOCUMENTS[form]
    translated = translate_content(content, form, keep_text, LANGUAGES)[0]
    if form in ("docx", "pptx", "odt"):
        assert unpack(translated) == unpack(content)
    else:
        assert translated == content


@pytest.mark.parametrize("form", ["docx", "pptx", "odt", "xml"])
def test_a_translation_is_well_formed_and_keeps_its_words(form: str) -> None:
    translated = translate_content(DOCUMENTS[form], form, reverse_words, LANGUAGES)[0]
    if form == "xml":
        assert b"<em>B</em>" in translated
        return
    for name, part in unpack(translated).items():
        if name.endswith(".xml"):
            words = "".join(ET.fromstring(part).itertext()).split()
            source = "".join(ET.fromstring(unpack(DOCUMENTS[form])[name]).itertext()).split()
            letters = [sorted("".join(each).lower()) for each in (words, source)]
            assert letters[0] == letters[1]
    assert translate_content(translated, form, keep_text, LANGUAGES)[0]


def test_bold_stays_with_its_words_in_word() -> None:
    translated = translate_content(DOCUMENTS["docx"], "docx", reverse_words, LANGUAGES)[0]
    root = ET.fromstring(unpack(translated)["word/document.xml"])
    bold = [
        "".join(run.itertext()).strip()
        for run in root.iter(f"{{{_W}}}r")
        if run.find(f"{{{_W}}}rPr/{{{_W}}}b") is not None
    ]
    assert [each for each in bold if each] == ["SINGS"]
    assert unpack(translated)["word/vbaProject.bin"] == b"macro"


def read_runs(paragraph: str, translate: TextTranslator) -> list[tuple[str, str | None]]:
    """Returns the texts of a translated paragraph of Word, and whether each keeps its space."""
    page = f'<w:document xmlns:w="{_W}"><w:body><w:p>{paragraph}</w:p></w:body></w:document>'
    translated = translate_content(
        pack(**{"word/document.xml": page}), "docx", translate, LANGUAGES
    )[0]
    root = ET.fromstring(unpack(translated)["word/document.xml"])
    space = "{http://www.w3.org/XML/1998/namespace}space"
    return [(each.text or "", each.get(space)) for each in root.iter(f"{{{_W}}}t")]


def test_words_cut_by_runs_that_look_alike_keep_the_space_between_them() -> None:
    # Word drops space at the ends of a text that doesn't say that it is to be kept.
    runs = "".join(f"<w:r><w:t>{text}</w:t></w:r>" for text in ("The wom", "an sin", "gs."))

    def translate(texts: Sequence[str]) -> list[TranslatedText]:
        assert texts == ["The woman sings."]
        links = (((0, 3), (0, 3)), ((4, 9), (4, 8)), ((10, 16), (9, 15)))
        return [TranslatedText("Die Frau singt.", links)]

    found = read_runs(runs, translate)
    assert "".join(text for text, _ in found) == "Die Frau singt."
    assert all(text == text.strip() or kept == "preserve" for text, kept in found)
    dropped = "<w:r><w:t>no space </w:t></w:r>"
    assert read_runs(dropped, keep_text) == [("no space ", None)]


def test_a_run_of_nothing_but_space_is_space() -> None:
    def run(text: str, look: str = "") -> str:
        return f'<w:r>{look}<w:t xml:space="preserve">{text}</w:t></w:r>'

    bold = "<w:rPr><w:b/></w:rPr>"
    for texts, looks in (
        (["one two ", "  ", "three"], ["", bold, ""]),
        (["one ", " ", "two"], [bold, "", bold]),
    ):
        paragraph = f"<w:p>{''.join(map(run, texts, looks))}</w:p>"
        assert [text for text, _ in read_runs(paragraph, keep_text)] == texts
        turned = "".join(text for text, _ in read_runs(paragraph, reverse_words))
        assert turned.split() == "".join(texts).upper().split()[::-1]


def test_a_footnotes_mark_stays_with_the_word_that_it_stood_behind() -> None:
    text = (
        f'<o:x xmlns:o="o" xmlns:text="{_T}"><text:p>One two.<text:note/> Three <text:note/>four'
        "</text:p></o:x>"
    )
    content = pack(mimetype="application/vnd.oasis.opendocument.text", **{"content.xml": text})

    def translate(texts: Sequence[str]) -> list[TranslatedText]:
        return [TranslatedText("Eins und zwei. Drei vier", None) for _ in texts]

    written = unpack(translate_content(content, "odt", translate, LANGUAGES)[0])[
        "content.xml"
    ].decode()
    assert "zwei.<text:note/> Drei <text:note/>vier" in written


def test_each_speaker_of_a_cue_keeps_the_dash() -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
    seen: list[str] = []

    def translate(texts: Sequence[str]) -> list[TranslatedText]:
        seen.extend(texts)
        return [TranslatedText(f"({text})") for text in texts]

    for lines, wanted, texts in (
        (
            "- Who is\nthere?\n- A dog.",
            "- (Who is\nthere?)\n- (A dog.)",
            ["Who is there?", "A dog."],
        ),
        ("<i>-Yes.</i>\n<i>- 5 men</i>", "<i>-(Yes.)</i>\n<i>- (5 men)</i>", ["Yes.", "5 men"]),
        ("It is\n-5 degrees - cold", "(It is\n-5 degrees - cold)", ["It is -5 degrees - cold"]),
    ):
        seen.clear()
        written = translate_content(cue.format(lines).encode(), "srt", translate, LANGUAGES)[0]
        assert (written.decode(), seen) == (cue.format(wanted), texts)


def test_a_cues_lines_break_where_they_did_behind_signs() -> None:
    cue = (
        "1\r\n00:00:01,000 --> 00:00:02,000\r\nHide: {\\a}\r\nhide {Y:long_name}\r\nshow {this}\r\n"
    )
    assert translate_content(cue.encode(), "srt", keep_text, LANGUAGES)[0] == cue.encode()


@pytest.mark.parametrize(
    ("lines", "target", "links", "wanted"),
    [
        # The line of times has its end, whatever comes first.
        ("one <b>two</b> three", "zwei eins drei", (1, 0, 2), "<b>zwei</b> eins drei"),
        # A line break that tags are taken from is put at another place.
        ("one two\n<b>three</b> four", "drei, eins zwei vier", (2, 0, 1, 3), None),
        # Lines with tags of their own aren't one text.
        ("<i>one <b>two</b></i>\n<i>three</i>", "drei zwei eins", (2, 1, 0), None),
    ],
)
def test_cues_stay_whole_where_tags_move(
    lines: str, target: str, links: Sequence[int], wanted: str | None
) -> None:
    def spans(text: str) -> list[tuple[int, int]]:
        return [found.span() for found in re.finditer(r"\w+", text)]

    def translate(texts: Sequence[str]) -> list[TranslatedText]:
        (text,) = texts
        pairs = zip((spans(text)[index] for index in links), spans(target), strict=True)
        return [TranslatedText(target, tuple(pairs))]

    cue = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
    written = translate_content(cue.format(lines).encode(), "srt", translate, LANGUAGES)[0].decode()
    assert written.startswith(cue.format("")[:-1])
    text = written.removeprefix(cue.format("")[:-1]).removesuffix("\n")
    assert wanted in (None, text)
    assert text.count("\n") == lines.count("\n")
    assert re.sub("<[^>]*>", "", text).split() == target.split()
    ET.fromstring(f"<cue>{text}</cue>")


def test_lines_in_the_same_tag_are_one_text_in_it() -> None:
    seen: list[str] = []

    def translate(texts: Sequence[str]) -> list[TranslatedText]:
        seen.extend(texts)
        return [TranslatedText("Eins zwei drei vier fünf") for _ in texts]

    cue = "1\r\n00:00:01,000 --> 00:00:02,000\r\n{}\r\n"
    page = cue.format("<i>One two three</i>\r\n<i>four five</i>")
    written = translate_content(page.encode(), "srt", translate, LANGUAGES)[0].decode()
    assert (written, seen) == (
        cue.format("<i>Eins zwei drei</i>\r\n<i>vier fünf</i>"),
        ["One two three four five"],
    )
    assert translate_content(page.encode(), "srt", keep_text, LANGUAGES)[0] == page.encode()
    for lines in (
        "<i>one</i>\r\n<b>two</b>",
        "<i>one</i> two\r\n<i>three</i>",
        "<i>one</i>\r\ntwo",
    ):
        page = cue.format(lines)
        assert translate_content(page.encode(), "srt", keep_text, LANGUAGES)[0] == page.encode()


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("Eins zwei, drei", "Eins zwei,\ndrei"),
        ("Eins (zwei) drei", "Eins (zwei)\ndrei"),
        ("Eins zwei-drei", "Eins\nzwei-drei"),
        ("一二三，四五", "一二三，\n四五"),
        ("一二三四五六", "一二三四\n五六"),
        # No better place.
        ("Eins.", "Eins\n."),
    ],
)
def test_no_line_of_a_cue_begins_with_a_comma(target: str, wanted: str) -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
    page = cue.format("one two three\nfour").encode()
    written = translate_content(page, "srt", lambda _: [TranslatedText(target)], LANGUAGES)[0]
    assert written.decode() == cue.format(wanted)


def test_a_po_file_gets_the_translations_that_it_lacks() -> None:
    translated = translate_content(_PO, "po", reverse_words, LANGUAGES)[0]
    # Babel's own reader says what is in the file.
    catalogue = read_po(io.BytesIO(translated))
    assert catalogue.get("a cat").string == "ein Kater"
    assert catalogue.get("a cat").fuzzy
    assert catalogue.get('Hello "big"\nworld').string.split() == ["WORLD", '"', "BIG", '"', "HELLO"]
    assert catalogue.get("one dog").string == ("DOG ONE", "DOGS TWO")


@pytest.mark.parametrize("form", [*DOCUMENTS, "po"])
def test_broken_files_are_refused_and_nothing_is_written(form: str, tmp_path: Path) -> None:
    content = {**DOCUMENTS, "po": _PO}[form]
    rng = random.Random(form)
    source, output = tmp_path / "in", tmp_path / "out"
    for number in range(50):
        place = rng.randrange(1, len(content))
        # Bytes that are in no UTF-8, and in no place of an archive but by chance.
        broken = content[:place] + b"\xff\xfe\xc0" + content[place + 3 :]
        if form in ("docx", "pptx", "odt"):
            broken = content[: place // 2 + 1]
        source.write_bytes(broken)
        with pytest.raises(MtkitError) as caught:
            translate_file(source, output, keep_text, LANGUAGES, form)
        assert str(source) in caught.value.message, number
        assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("form", "content", "fault"),
    [
        ("xml", b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "entity 'x'"),
        ("xml", b"<a>" * 2_000, "more than 1,000 elements"),
        ("xml", b"<a>\n<b></a>", "line 2: not well-formed XML"),
        ("xml", b"<a>&#" + b"0" * 5_000 + b"65;</a>", "reference of a thousand digits"),
        ("json", b'{"a": "b",}', "line 1: invalid JSON"),
        ("json", b"[" * 100_000, "nested too deeply"),
        ("po", b'msgid "a"\nmsgstr b', "line 2: expected"),
        ("srt", b"Hello\n\nthere", "no cue"),
        ("docx", pack(a="b"), "no part word/document.xml"),
        ("docx", b"PK", "damaged"),
        ("htlm", b"", "did you mean 'html'"),
    ],
)
def test_faults_are_told(form: str, content: bytes, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        translate_content(content, form, keep_text, LANGUAGES)


def test_a_bomb_is_refused() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (65 << 20))
    assert len(packed.getvalue()) < 1 << 20
    with pytest.raises(MtkitError, match="when unpacked"):
        translate_content(packed.getvalue(), "docx", keep_text, LANGUAGES)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_what_unpacks_in_steps_is_unpacked(compression: int) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        archive.writestr("word/document.xml", _WORD)
    with pytest.raises(MtkitError, match="office programs don't use"):
        translate_content(packed.getvalue(), "docx", keep_text, LANGUAGES)


def test_attributes_of_a_document_type_are_not_multiplied() -> None:
    page = '<!DOCTYPE a [<!ATTLIST b title CDATA "long">]><a><b id="1"/></a>'
    [found] = [each for each in read_xml_tokens(page) if each.name == "b"]
    assert found.attributes == {"id": "1"}


@pytest.mark.parametrize(
    ("source", "output", "form", "is_right"),
    [
        ("a.htm", "b.html", "html", True),
        ("a.yml", "b.yaml", "yaml", True),
        ("a.txt", "b.md", "text", True),
        ("a.md", "b.txt", "markdown", True),
        ("a.xhtml", "b.html", "xml", True),
        ("a.html", "b", "html", True),
        ("a.html", "b.html.draft", "html", True),
        ("page.txt", "b.txt", "html", True),
        ("a.pot", "de.po", "po", True),
        ("a.html", "b.md", "html", False),
        ("a.xhtml", "b.docx", "xml", False),
        ("a.docx", "b.doc", "docx", False),
        ("a.docx", "b.draft", "docx", False),
        ("a.srt", "b.vtt", "srt", False),
        ("a.json", "b.yaml", "json", False),
    ],
)
def test_an_output_has_the_format_of_its_source(
    source: str, output: str, form: str, is_right: bool, tmp_path: Path
) -> None:
    paths = tmp_path / output, tmp_path / source
    if is_right:
        check_output_path(*paths, form)
    else:
        with pytest.raises(MtkitError, match="can't convert formats"):
            check_output_path(*paths, form)


def test_an_existing_output_stays_where_the_translator_fails(tmp_path: Path) -> None:
    def fail(_: Sequence[str]) -> list[TranslatedText]:
        raise MtkitError("no model")

    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("text")
    output.write_text("old")
    with pytest.raises(MtkitError, match=r"a\.txt: no model"):
        translate_file(source, output, fail, LANGUAGES)
    assert output.read_text() == "old"


def test_utf_16_stays_utf_16() -> None:
    content = "\ufeffa dog".encode("utf-16-le")
    assert translate_content(content, "text", reverse_words, LANGUAGES)[0] == "\ufeffDOG A".encode(
        "utf-16-le"
    )
