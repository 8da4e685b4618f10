"""Office documents: whatever a paragraph is made of, nothing is lost, doubled or out of place."""

import io
import itertools
import random
import re
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from xml.parsers import expat

import pytest

from mtkit.documents.archives import translate_archive
from mtkit.documents.atoms import find_atoms
from mtkit.documents.document import LanguageCodes, SkippedSpan, TextTranslator, TranslatedText
from mtkit.documents.formats import office_documents
from mtkit.documents.formats.office_documents import read_office
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError

from .translators import keep_text, reverse_words, take_all

_LANGUAGES = LanguageCodes("en", "de")
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_C = "http://schemas.openxmlformats.org/drawingml/2006/chart"
_T = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_O = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_MAIN = {"docx": "word/document.xml", "pptx": "ppt/slides/slide1.xml", "odt": "content.xml"}


def make_page(form: str, body: str) -> str:
    """Returns the XML of a part that holds a body."""
    match form:
        case "docx":
            return f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>'
        case "pptx":
            return f'<p:sld xmlns:p="{_P}" xmlns:a="{_A}"><p:txBody>{body}</p:txBody></p:sld>'
        case _:
            inner = f"<office:body><office:text>{body}</office:text></office:body>"
            spaces = f'xmlns:office="{_O}" xmlns:text="{_T}"'
            return f"<office:document-content {spaces}>{inner}</office:document-content>"


def pack(parts: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return stream.getvalue()


def unpack(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def translate(form: str, body: str, translator: TextTranslator) -> str:
    """Returns a body's translation, in a document of its own."""
    parts = {_MAIN[form]: make_page(form, body)}
    if form == "pptx":
        parts["ppt/presentation.xml"] = f'<p:presentation xmlns:p="{_P}"/>'
    part = unpack(translate_content(pack(parts), form, translator, _LANGUAGES)[0])[_MAIN[form]]
    expat.ParserCreate().Parse(part.encode(), True)
    before, behind = make_page(form, "|").split("|")
    return part.removeprefix(before).removesuffix(behind)


def read_seen(form: str, body: str) -> list[str]:
    """Returns what a translator sees of a body; one that changes nothing leaves it as it is."""
    seen: list[str] = []
    assert translate(form, body, lambda texts: take_all(texts, seen)) == body
    return seen


def read_skipped(form: str, body: str) -> list[SkippedSpan]:
    return read_office(make_page(form, body), _LANGUAGES).skipped


def capitals(texts: Sequence[str]) -> list[TranslatedText]:
    return [
        TranslatedText(text.upper(), tuple((atom, atom) for atom in find_atoms(text)))
        for text in texts
    ]


def run(text: str, look: str = "") -> str:
    formatting = f"<w:rPr>{look}</w:rPr>" if look else ""
    return f'<w:r>{formatting}<w:t xml:space="preserve">{text}</w:t></w:r>'


_HOLDERS = {
    "hyperlink": ('<w:hyperlink w:anchor="x">', "</w:hyperlink>"),
    "ins": ('<w:ins w:id="7">', "</w:ins>"),
    "moveTo": ('<w:moveTo w:id="8">', "</w:moveTo>"),
    "smartTag": (
        '<w:smartTag w:element="n"><w:smartTagPr><w:attr/></w:smartTagPr>',
        "</w:smartTag>",
    ),
    "fldSimple": (
        '<w:fldSimple w:instr=" HYPERLINK &quot;x&quot;"><w:fldData>AbCd</w:fldData>',
        "</w:fldSimple>",
    ),
    "sdt": (
        '<w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtContent>',
        "</w:sdtContent></w:sdt>",
    ),
    "customXml": (
        '<w:customXml w:element="n"><w:customXmlPr><w:attr/></w:customXmlPr>',
        "</w:customXml>",
    ),
    "bdo": ('<w:bdo w:val="ltr">', "</w:bdo>"),
    "dir": ('<w:dir w:val="ltr">', "</w:dir>"),
}


@pytest.mark.parametrize("holder", _HOLDERS)
@pytest.mark.parametrize("place", ["begins", "ends", "middle", "all"])
def test_an_element_that_holds_runs_is_part_of_the_sentence(holder: str, place: str) -> None:
    opening, closing = _HOLDERS[holder]
    held = opening + run("red apples") + closing
    before = "" if place in ("begins", "all") else run("Three ")
    behind = "" if place in ("ends", "all") else run(" fall.")
    body = f"<w:p>{before}{held}{behind}</w:p>"
    words = [*["Three"] * bool(before), "red", "apples", *["fall."] * bool(behind)]
    assert read_seen("docx", body) == [" ".join(words)]
    translated = translate("docx", body, reverse_words)
    assert [translated.count(tag) for tag in (opening, closing)] == [1, 1]
    inside = translated[translated.index(opening) + len(opening) : translated.index(closing)]
    assert inside == run("APPLES RED")
    check_parents("docx", translated)


@pytest.mark.parametrize("holder", ["del", "moveFrom"])
def test_removed_text_stays_and_is_not_mentioned(holder: str) -> None:
    removed = f'<w:{holder} w:id="1">{run("Not this.")}</w:{holder}>'
    body = f"<w:p>{run('The dog')}{removed}{run(' runs.')}</w:p>"
    assert read_seen("docx", body) == ["The dog runs."]
    assert removed in translate("docx", body, reverse_words)
    assert read_skipped("docx", body) == []


def test_removed_paragraphs_stay() -> None:
    removed = "<text:deletion><text:p>Old words.</text:p></text:deletion>"
    region = f"<text:changed-region>{removed}</text:changed-region>"
    body = f"<text:tracked-changes>{region}</text:tracked-changes><text:p>New words.</text:p>"
    assert read_seen("odt", body) == ["New words."]


@pytest.mark.parametrize(
    "element",
    [
        "<w:lastRenderedPageBreak/>",
        '<w:footnoteReference w:id="2"/>',
        '<w:endnoteReference w:id="2"/>',
        '<w:commentReference w:id="2"/>',
        '<w:sym w:font="Wingdings" w:char="F04A"/>',
        "<w:softHyphen/>",
        "<w:noBreakHyphen/>",
        "<w:drawing><w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent>"
        "</w:drawing>",
    ],
)
@pytest.mark.parametrize("look", ["", "<w:rPr><w:b/></w:rPr>"])
def test_elements_of_a_run_stay_in_runs(element: str, look: str) -> None:
    inside = f'<w:t xml:space="preserve">old </w:t>{element}<w:t>man</w:t>'
    body = f"<w:p>{run('The ')}<w:r>{look}{inside}{element}</w:r>{run(' sleeps here.')}</w:p>"
    read_seen("docx", body)
    for translator in (capitals, reverse_words):
        translated = translate("docx", body, translator)
        check_parents("docx", translated)
        tag = element[: element.index(">") + 1]
        assert translated.count(tag) == 2


def test_elements_at_the_edges_of_a_run_stay_in_it() -> None:
    body = (
        "<w:p><w:r><w:lastRenderedPageBreak/><w:t>The old man</w:t></w:r><w:r><w:rPr><w:i/></w:rPr>"
        '<w:t>sings</w:t><w:footnoteReference w:id="1"/></w:r></w:p>'
    )
    read_seen("docx", body)
    check_parents("docx", translate("docx", body, reverse_words))


def test_a_tracked_change_of_formatting_is_not_the_formatting() -> None:
    was_plain = '<w:b/><w:rPrChange w:id="1" w:author="a"><w:rPr/></w:rPrChange>'
    was_italic = '<w:rPrChange w:id="2" w:author="a"><w:rPr><w:i/></w:rPr></w:rPrChange>'
    for look in (was_plain, was_italic):
        body = f"<w:p>{run('The old man ')}{run('buys', look)}{run(' three red apples.')}</w:p>"
        read_seen("docx", body)
        assert run("BUYS", look) in translate("docx", body, reverse_words)


def test_formatting_and_edges_of_a_text_box_are_its_own() -> None:
    inner = (
        "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:rPr><w:b/></w:rPr><w:tab/>"
        "<w:t>In a box</w:t></w:r></w:p>"
    )
    box = f"<w:pict><w:txbxContent>{inner}</w:txbxContent></w:pict>"
    body = (
        f"<w:p>{run('The old ')}<w:r>{box}<w:t>man</w:t></w:r><w:r>{box}</w:r>{run(' eats')}</w:p>"
    )
    assert sorted(read_seen("docx", body)) == ["In a box", "In a box", "The old man eats"]
    translated = translate("docx", body, capitals)
    assert translated == re.sub(r">[^<>]+<", lambda found: found.group().upper(), body)


def test_a_non_breaking_hyphen_is_a_character() -> None:
    hyphen = "<w:noBreakHyphen/>"
    alone = f"<w:p>{run('It takes 1')}<w:r>{hyphen}</w:r>{run('24 hours.')}</w:p>"
    assert read_seen("docx", alone) == ["It takes 1\u201124 hours."]
    inside = (
        f"<w:p><w:r><w:t>The F</w:t>{hyphen}<w:t>16 and e</w:t>{hyphen}<w:t>mail.</w:t></w:r></w:p>"
    )
    assert read_seen("docx", inside) == ["The F\u201116 and e\u2011mail."]
    for body in (alone, inside):
        translated = translate("docx", body, reverse_words)
        assert translated.count(hyphen) == body.count(hyphen)
        assert "\u2011" not in translated
        check_parents("docx", translated)


def test_space_elements_are_space() -> None:
    span = '<text:span text:style-name="T1">{}</text:span>'
    words = "<text:s/>".join(map(span.format, ("The", "old", "man", "sleeps.")))
    assert read_seen("odt", f"<text:p>{words}</text:p>") == ["The old man sleeps."]
    wide = '<text:p>One<text:s text:c="3"/>red car.</text:p>'
    assert read_seen("odt", wide) == ["One red car."]
    assert translate("odt", wide, capitals) == '<text:p>ONE<text:s text:c="3"/>RED CAR.</text:p>'


def test_bases_of_rubies_and_metadata_are_text() -> None:
    above = "<text:ruby-text>rt</text:ruby-text>"
    ruby = f"<text:ruby><text:ruby-base>{{}}</text:ruby-base>{above}</text:ruby>"
    body = (
        f"<text:p>Hello <text:meta>inside it</text:meta> {ruby.format('base word')} end.</text:p>"
    )
    assert read_seen("odt", body) == ["Hello inside it base word end."]
    translated = translate("odt", body, reverse_words)
    assert ruby.format("WORD BASE") in translated
    assert "<text:meta>IT INSIDE</text:meta>" in translated


def test_content_controls_of_libreoffice_hold_text() -> None:
    space = "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"
    opening = f'<l:content-control xmlns:l="{space}">'
    body = f"<text:p>Two {opening}red apples</l:content-control> fall.</text:p>"
    assert read_seen("odt", body) == ["Two red apples fall."]
    assert f"{opening}APPLES RED</l:content-control>" in translate("odt", body, reverse_words)


def test_an_element_may_begin_inside_a_word_behind_a_tag_without_text() -> None:
    mark = '<w:bookmarkStart w:id="1"/>'
    assert read_seen(
        "docx", f"<w:p>{run('A dog')}{mark}{run('s bark', '<w:b/>')}{run(' now.')}</w:p>"
    )


@pytest.mark.parametrize("beside", ["", '<w:t xml:space="preserve">and </w:t>'])
def test_bases_of_rubies_in_runs_are_text(beside: str) -> None:
    above = f"<w:ruby><w:rubyPr/><w:rt>{run('rt')}</w:rt>"
    ruby = f"{above}<w:rubyBase>{{}}</w:rubyBase></w:ruby>"
    inside = beside + ruby.format(run("base word"))
    body = f"<w:p>{run('Hello ')}<w:r><w:rPr><w:b/></w:rPr>{inside}</w:r>{run(' is here.')}</w:p>"
    assert read_seen("docx", body) == [f"Hello {'and ' if beside else ''}base word is here."]
    translated = translate("docx", body, reverse_words)
    assert ruby.format(run("WORD BASE")) in translated
    check_parents("docx", translated)


def test_the_space_of_a_pretty_printed_file_is_kept_and_no_formatting() -> None:
    bold = "<w:rPr>\n  <w:b/>\n</w:rPr>"
    runs = [
        f"<w:r>\n {bold}\n <w:t>The old</w:t>\n</w:r>",
        "<w:r><w:rPr><w:b/></w:rPr><w:t> man</w:t></w:r>",
        '<w:r>\n <w:t xml:space="preserve"> sleeps in the house.</w:t>\n</w:r>',
    ]
    joined = "\n".join(runs)
    body = f"<w:p>\n{joined}\n</w:p>"
    assert read_seen("docx", body) == ["The old man sleeps in the house."]
    translated = ET.fromstring(make_page("docx", translate("docx", body, reverse_words)))
    looks = [each.find(f"{{{_W}}}rPr") is not None for each in translated.iter(f"{{{_W}}}r")]
    assert looks == [False, True]


def test_text_that_stays_is_mentioned() -> None:
    reason = "in unsupported elements"

    def read(form: str, body: str) -> list[tuple[str, str, str]]:
        return [each[1:4] for each in read_skipped(form, body)]

    field = '<a:fld type="datetime"><a:rPr/><a:t>3 May {}</a:t></a:fld>'
    body = f"<a:p><a:r><a:t>Today is </a:t></a:r>{field.format('2000')}</a:p>"
    assert read("pptx", body) == [("3 May 2000", reason, "a:fld")]
    assert read("pptx", body.replace("3 May ", "")) == []
    body = '<text:p>See <text:bookmark-ref text:ref-name="x">Figure 1</text:bookmark-ref>.</text:p>'
    assert read("odt", body) == [("Figure 1", reason, "text:bookmark-ref")]
    note = "<text:note><text:note-citation>i</text:note-citation><text:note-body><text:p>A note"
    note += "</text:p></text:note-body></text:note>"
    assert read("odt", f"<text:p>One{note}</text:p>") == []
    hidden = "<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:delText>Gone</w:delText></w:r>"
    unknown = f"<w:unknown>{run('Some')}{run('thing')}<w:del>{run('Gone')}</w:del></w:unknown>"
    body = f"<w:p>{run('The dog')}{hidden}{unknown}</w:p>"
    assert read("docx", body) == [("Something", reason, "w:unknown")]
    assert read_skipped("docx", body)[0].start == make_page("docx", body).index("<w:unknown>")


def make_field(instruction: str, result: str) -> str:
    """Returns a field of Word in runs of its own."""
    characters = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in _FIELD_KINDS]
    begin, separate, end = characters
    told = f'<w:r><w:instrText xml:space="preserve"> {instruction} </w:instrText></w:r>'
    return begin + told + separate + result + end


_FIELD_KINDS = ("begin", "separate", "end")


@pytest.mark.parametrize(
    "field",
    [
        f'<w:fldSimple w:instr=" AUTHOR ">{run("Baker")}</w:fldSimple>',
        make_field("MERGEFIELD Name", run("Baker")),
        make_field(
            'IF 1 = 1 "a" "b"',
            make_field("PAGE", run("Ba")) + "<w:bookmarkEnd/>" + run("ker"),
        ),
    ],
)
def test_fields_of_word_are_copied_and_reported(field: str) -> None:
    body = f"<w:p>{run('The man ')}{field}{run(' sleeps.')}</w:p>"
    assert read_seen("docx", body) == ["The man sleeps."]
    assert field in translate("docx", body, capitals)
    [skipped] = read_skipped("docx", body)
    assert skipped.text == "Baker"


def test_the_text_of_a_link_in_a_field_is_translated() -> None:
    body = f"<w:p>{make_field('HYPERLINK &quot;x&quot;', run('The man sleeps.'))}</w:p>"
    assert read_seen("docx", body) == ["The man sleeps."]
    # Fields that end in another paragraph, such as a table of contents, or share a run with text.
    body = make_field("TOC", run("The man") + "</w:p><w:p>" + run("The dog"))
    assert read_seen("docx", f"<w:p>{body}</w:p>") == ["The man", "The dog"]
    mixed = '<w:r><w:t>The man</w:t><w:fldChar w:fldCharType="begin"/></w:r>'
    assert read_seen("docx", f"<w:p>{mixed}{run('Baker')}</w:p>") == ["The man", "Baker"]


@pytest.mark.parametrize("kind", _FIELD_KINDS)
def test_a_paragraphs_fields_are_matched_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many fields without an end must not take the square of their number."""
    calls: list[int] = []
    match = office_documents._RunReader._match_fields

    def count(reader: office_documents._RunReader, index: int) -> None:
        calls.append(index)
        match(reader, index)

    monkeypatch.setattr(office_documents._RunReader, "_match_fields", count)
    character = f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'
    read_office(make_page("docx", f"<w:p>{character * 50}</w:p>"), _LANGUAGES)
    assert len(calls) == 1


def relate(target: str, kind: str = _RELATED) -> str:
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return (
        f'<Relationships xmlns="{space}"><Relationship Id="a" Type="x/core" Target="a.xml"/>'
        f'<Relationship Id="b" Type="{kind}" Target="{target}"/></Relationships>'
    )


@pytest.mark.parametrize("target", ["word/document2.xml", "/word/document2.xml"])
def test_the_main_part_is_the_one_that_the_relationships_name(target: str) -> None:
    page = make_page("docx", f"<w:p>{run('a dog')}</w:p>")
    parts = {"_rels/.rels": relate(target), "word/document2.xml": page, "word/header1.xml": page}
    translated = unpack(translate_content(pack(parts), "docx", capitals, _LANGUAGES)[0])
    assert [translated[name] for name in parts] == [
        parts["_rels/.rels"],
        *[page.replace("a dog", "A DOG")] * 2,
    ]


def test_a_main_part_elsewhere_takes_its_other_parts_along() -> None:
    slide = make_page("pptx", "<a:p><a:r><a:t>a dog</a:t></a:r></a:p>")
    show = f'<p:presentation xmlns:p="{_P}"/>'
    strict = "http://purl.oclc.org/ooxml/officeDocument/relationships/officeDocument"
    parts = {
        "_rels/.rels": relate("x/main.xml", strict),
        "x/main.xml": show,
        "x/slides/slide3.xml": slide,
    }
    translated = unpack(translate_content(pack(parts), "pptx", capitals, _LANGUAGES)[0])
    assert "A DOG" in translated["x/slides/slide3.xml"]


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"_rels/.rels": relate("word/x.xml"), "word/document.xml": "<a/>"}, "no part word/x.xml"),
        ({"_rels/.rels": relate("xl/workbook.xml"), "xl/workbook.xml": "<a/>"}, "another kind"),
    ],
)
def test_a_document_without_its_main_part_is_refused(parts: dict[str, str], fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        translate_content(pack(parts), "docx", keep_text, _LANGUAGES)


def test_parts_that_are_not_translated_are_mentioned() -> None:
    comments = f'<w:comments xmlns:w="{_W}"><w:p>{run("Nice ")}{run("dog")}</w:p></w:comments>'
    points = "".join(f"<c:pt><c:v>{value}</c:v></c:pt>" for value in ("Sales", "12.5"))
    title = "<a:p><a:r><a:t>A chart</a:t></a:r></a:p>"
    chart = f'<c:chart xmlns:c="{_C}" xmlns:a="{_A}">{title}{points}</c:chart>'
    slide = make_page("pptx", "<a:p><a:r><a:t>Click here</a:t></a:r></a:p>")
    entities = f'<!DOCTYPE a [<!ENTITY b "c">]>{comments}'
    parts = {
        "word/document.xml": make_page("docx", f"<w:p>{run('A dog')}</w:p>"),
        "word/comments.xml": comments,
        "word/charts/chart1.xml": chart,
        "word/broken.xml": comments[:-3],
        "word/entities.xml": entities,
        "word/glossary/document.xml": make_page("docx", f"<w:p>{run('A dog')}</w:p>"),
        "docProps/app.xml": "<a>text</a>",
    }
    found: list[tuple[str, str, str]] = []

    def skip(*each: str) -> None:
        found.append((each[0], each[1], each[2]))

    assert unpack(translate_archive(pack(parts), "docx", lambda part, _: part, skip)) == parts
    reason = "in parts that aren't translated"
    assert found == [
        ("word/comments.xml", "Nice dog", reason),
        ("word/charts/chart1.xml", "A chart", reason),
        ("word/charts/chart1.xml", "Sales", reason),
    ]
    found.clear()
    comment = f'<p:cmLst xmlns:p="{_P}"><p:cm><p:text>Say more</p:text></p:cm></p:cmLst>'
    parts = {
        "ppt/presentation.xml": "<a/>",
        "ppt/slides/slide1.xml": slide,
        "ppt/slideLayouts/slideLayout1.xml": slide,
        "ppt/slideMasters/slideMaster1.xml": slide,
        "ppt/comments/comment1.xml": comment,
        "ppt/diagrams/data1.xml": slide.replace("Click", "Draw"),
        "ppt/diagrams/drawing1.xml": slide.replace("Click", "Draw"),
    }
    translate_archive(pack(parts), "pptx", lambda part, _: part, skip)
    assert [each[1] for each in found] == ["Say more", "Draw here"]
    found.clear()
    page = make_page("odt", "<text:p>Axis of <text:span>time</text:span></text:p>")
    translate_archive(
        pack({"content.xml": page, "Object 1/content.xml": page, "meta.xml": page}),
        "odt",
        lambda part, _: part,
        skip,
    )
    assert found == [("Object 1/content.xml", "Axis of time", reason)]


# A fuzzer: paragraphs of whatever the formats allow.

_ANY_HOLDER = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "fldSimple", "sdtContent"])
_ANY_HOLDER |= {"customXml", "bdo", "dir"}
_RUN_PARENTS = _ANY_HOLDER | {"p", "rubyBase", "rt", "del", "moveFrom", "unknown"}
_TRACKED = frozenset(["ins", "moveTo"])
"""Of ECMA-376's elements those that hold runs, but no links and fields."""
_IN_RUN = ("lastRenderedPageBreak", "footnoteReference", "endnoteReference", "commentReference")
_IN_RUN += ("sym", "softHyphen", "noBreakHyphen", "drawing", "ruby", "tab", "br", "fldChar")
_BETWEEN_RUNS = ("bookmarkStart", "bookmarkEnd", "proofErr", "del", "moveFrom", "sdt")
_BETWEEN_RUNS += ("smartTag", "customXml", "bdo", "dir", "ins", "moveTo")
_WORD_PARENTS = {
    "r": _RUN_PARENTS,
    "t": frozenset(["r"]),
    **dict.fromkeys(_IN_RUN, frozenset(["r"])),
    **dict.fromkeys(_BETWEEN_RUNS, _ANY_HOLDER | {"p", "rubyBase"}),
    **dict.fromkeys(("hyperlink", "fldSimple"), _ANY_HOLDER - _TRACKED | {"p", "rubyBase"}),
    "sdtContent": frozenset(["sdt"]),
    "rubyBase": frozenset(["ruby"]),
    "rPr": frozenset(["r", "rPrChange"]),
}
_SLIDE_PARENTS = {
    "r": frozenset(["p"]),
    "fld": frozenset(["p"]),
    "br": frozenset(["p"]),
    "t": frozenset(["r", "fld"]),
    "rPr": frozenset(["r", "fld"]),
}
_TEXT_PARENTS = {
    "ruby-base": frozenset(["ruby"]),
    "ruby-text": frozenset(["ruby"]),
    **dict.fromkeys(
        ("span", "a", "meta", "ruby", "s"), frozenset(["p", "span", "a", "meta", "ruby-base"])
    ),
}
_PARENTS = {"docx": _WORD_PARENTS, "pptx": _SLIDE_PARENTS, "odt": _TEXT_PARENTS}
_WORDS = (
    "the",
    "old",
    "man",
    "house",
    "e-mail",
    "A&amp;B",
    "Müller",
    "it's",
    "x2",
    "\u2011",
    "«no»",
)


def check_parents(form: str, body: str) -> None:
    """Checks that elements stand where the format's schema has them."""
    for parent in ET.fromstring(make_page(form, body)).iter():
        name = parent.tag.rpartition("}")[2]
        for place, child in enumerate(parent):
            inner = child.tag.rpartition("}")[2]
            assert name in _PARENTS[form].get(inner, {name}), f"{inner} in {name}: {body}"
            assert inner != "rPr" or place == 0, body
        if name not in ("t", "delText", "instrText", "fldData") and form != "odt":
            assert not "".join([parent.text or "", *[each.tail or "" for each in parent]]).strip()


def read_characters(form: str, body: str) -> Counter[str]:
    """Returns how often each character but space is in a body, in capitals."""
    page = make_page(form, body.replace("<w:noBreakHyphen/>", "\u2011"))
    return Counter("".join("".join(ET.fromstring(page).itertext()).upper().split()))


def count_elements(form: str, body: str) -> Counter[tuple[str, str]]:
    """Returns how often each element but runs, their texts and formatting is in a body."""
    unlisted = frozenset(["r", "t", "rPr", "b", "i", "rPrChange", "lang", "s"])
    return Counter(
        (each.tag, str(sorted(each.attrib.items())))
        for each in ET.fromstring(make_page(form, body)).iter()
        if each.tag.rpartition("}")[2] not in unlisted
    )


class _Builder:
    """Builds a random body of a document.

    Args:
        form: Its format.
        seed: Of what is random.
    """

    def __init__(self, form: str, seed: int) -> None:
        self._form, self._random = form, random.Random(seed)
        self._numbers = itertools.count()
        self._space = self._random.choice(["", "", "\n  "])
        """Between tags where it isn't text."""

    def build(self) -> str:
        """Returns some paragraphs."""
        build = {"docx": self._build_word, "pptx": self._build_slide, "odt": self._build_text}
        return "".join(build[self._form](3) for _ in range(self._random.randint(1, 3)))

    def _choose(self, *choices: Callable[[], str]) -> str:
        return self._random.choice(choices)()

    def _repeat(self, build: Callable[[], str], most: int = 4) -> str:
        """Returns up to some of what is built, at least one."""
        return self._space.join(build() for _ in range(self._random.randint(1, most)))

    def _make_words(self) -> str:
        words = [self._random.choice(_WORDS) for _ in range(self._random.randint(0, 3))]
        ends = [self._random.choice(["", "", " ", "  "]) for _ in range(2)]
        text = ends[0] + self._random.choice([" ", " ", "  "]).join(words) + ends[1]
        return text + self._random.choice(["", "", "", ".", ", "])

    def _id(self) -> str:
        return f'w:id="{next(self._numbers)}"'

    def _build_word(self, depth: int) -> str:
        inside = self._repeat(lambda: self._build_inline(depth, is_tracked=False), 6)
        start = self._random.choice(["", "<w:pPr><w:jc/></w:pPr>"])
        return f"<w:p>{self._space}{start}{self._space}{inside}{self._space}</w:p>"

    def _build_inline(self, depth: int, *, is_tracked: bool) -> str:
        if depth == 0 or self._random.random() < 0.55:
            return self._build_run(depth)
        if self._random.random() < 0.4:
            removed = self._random.choice(["del", "moveFrom"])
            return self._choose(
                lambda: f"<w:bookmarkStart {self._id()}/>",
                lambda: f'<w:proofErr w:type="spellStart" {self._id()}/>',
                lambda: f"<w:{removed} {self._id()}>{run('was')}</w:{removed}>",
                lambda: f"<w:unknown {self._id()}>{run('known')}</w:unknown>",
                lambda: f"<!-- comment {next(self._numbers)} -->",
            )
        holder = self._random.choice(
            [each for each in _HOLDERS if not (is_tracked and each in ("hyperlink", "fldSimple"))]
        )
        opening, closing = _HOLDERS[holder]
        opening = re.sub(
            r"^<w:\w+", lambda found: f'{found.group()} w:n="{self._id()[6:-1]}"', opening
        )
        opening = opening.replace("><", f">{self._space}<")
        inside = ""
        if self._random.random() < 0.95:
            is_tracked |= holder in _TRACKED
            inside = self._repeat(lambda: self._build_inline(depth - 1, is_tracked=is_tracked), 3)
        return opening + self._space + inside + self._space + closing

    def _build_run(self, depth: int) -> str:
        look = self._random.choice(
            [
                *[""] * 4,
                '<w:lang w:val="en"/>',
                "<w:b/>",
                f"{self._space}<w:b/>{self._space}",
                "<w:i/>",
                '<w:b/><w:rPrChange w:id="1"><w:rPr/></w:rPrChange>',
                '<w:rPrChange w:id="2"><w:rPr><w:i/></w:rPr></w:rPrChange>',
            ]
        )
        formatting = f"<w:rPr>{look}</w:rPr>" if look else self._random.choice(["", "<w:rPr/>"])
        revision = self._random.choice(["", ' w:rsidR="00A1"'])
        inside = self._repeat(lambda: self._build_in_run(depth), self._random.choice([1, 1, 4]))
        return f"<w:r{revision}>{self._space}{formatting}{self._space}{inside}{self._space}</w:r>"

    def _build_in_run(self, depth: int) -> str:
        if self._random.random() < 0.6:
            kept = self._random.choice(["", ' xml:space="preserve"'])
            return f"<w:t{kept}>{self._make_words()}</w:t>"
        if depth > 1 and self._random.random() < 0.2:
            if self._random.random() < 0.5:
                box = f"<w:txbxContent>{self._build_word(1)}</w:txbxContent>"
                return f"<w:drawing {self._id()}>{box}</w:drawing>"
            inside = self._repeat(lambda: self._build_run(1), 2)
            above = f"<w:rubyPr/><w:rt>{run('above')}</w:rt>"
            return f"<w:ruby {self._id()}>{above}<w:rubyBase>{inside}</w:rubyBase></w:ruby>"
        return self._choose(
            lambda: f"<w:lastRenderedPageBreak {self._id()}/>",
            lambda: f"<w:footnoteReference {self._id()}/>",
            lambda: f'<w:sym w:char="F04A" {self._id()}/>',
            lambda: "<w:softHyphen/>",
            lambda: "<w:noBreakHyphen/>",
            lambda: "<w:t/>",
            lambda: f"<w:tab {self._id()}/>",
            lambda: "<w:br/>",
            lambda: (
                f'<w:fldChar w:fldCharType="{self._random.choice(_FIELD_KINDS)}"/>'
                "<w:instrText>PAGE</w:instrText>"
            ),
        )

    def _build_slide(self, depth: int) -> str:
        del depth

        def build() -> str:
            text = f"<a:t>{self._make_words()}</a:t>"
            look = self._random.choice(
                ["", "<a:rPr/>", '<a:rPr lang="en-US" dirty="0"/>', '<a:rPr lang="en-US" b="1"/>']
            )
            return self._random.choice(
                [
                    *[f"<a:r>{self._space}{look}{self._space}{text}{self._space}</a:r>"] * 5,
                    f'<a:br n="{next(self._numbers)}"/>',
                    f'<a:fld type="x" n="{next(self._numbers)}">{look}{text}</a:fld>',
                ]
            )

        inside = self._repeat(build, 6)
        return f"<a:p>{self._space}{inside}{self._space}<a:endParaRPr/></a:p>"

    def _build_text(self, depth: int) -> str:
        self._space = ""
        return f"<text:p>{self._repeat(lambda: self._build_span(depth), 6)}</text:p>\n "

    def _build_span(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.5:
            return self._make_words()
        number = f'text:n="{next(self._numbers)}"'

        def build() -> str:
            return self._repeat(lambda: self._build_span(depth - 1), 3)

        above = "<text:ruby-text>above</text:ruby-text>"
        return self._choose(
            lambda: f"<text:span {number}>{build()}</text:span>",
            lambda: f"<text:a {number}>{build()}</text:a>",
            lambda: f"<text:meta {number}>{build()}</text:meta>",
            lambda: (
                f"<text:ruby {number}><text:ruby-base>{build()}</text:ruby-base>{above}</text:ruby>"
            ),
            lambda: '<text:s text:c="2"/>',
            lambda: "<text:s/>",
            lambda: f"<text:soft-page-break {number}/>",
            lambda: f"<text:tab {number}/>",
            lambda: f"<text:line-break {number}/>",
            lambda: f"<text:author-name {number}>Ann</text:author-name>",
            lambda: (
                f"<text:note {number}><text:note-body>{self._build_text(1)}</text:note-body>"
                "</text:note>"
            ),
        )


# More find rarer faults.
@pytest.mark.parametrize(
    "seeds",
    [range(40), pytest.param(range(1_000, 1_500), marks=pytest.mark.patient)],
    ids=["few", "many"],
)
@pytest.mark.parametrize("form", _MAIN)
def test_nothing_is_lost_doubled_or_out_of_place(form: str, seeds: range) -> None:
    for seed in seeds:
        body = _Builder(form, seed).build()
        check_parents(form, body)
        assert translate(form, body, keep_text) == body
        for translator in (capitals, reverse_words):
            translated = translate(form, body, translator)
            check_parents(form, translated)
            assert count_elements(form, translated) == count_elements(form, body), body
            assert read_characters(form, translated) == read_characters(form, body), body
            # Translated once more, it is the same.
            assert translate(form, translated, keep_text) == translated


def test_archives_whose_directory_is_damaged_are_no_traceback() -> None:
    content = pack({_MAIN["docx"]: make_page("docx", "<w:p>" + run("Hello.") + "</w:p>")})
    randomness = random.Random(1)
    num_refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        # The directory is at the end.
        damaged[randomness.randrange(len(content) * 2 // 3, len(content))] ^= randomness.randrange(
            1, 256
        )
        try:
            translate_content(bytes(damaged), "docx", capitals, _LANGUAGES)
        except MtkitError:
            num_refused += 1
    assert num_refused > 30
