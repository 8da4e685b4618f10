"""Encodings that documents declare: what is written is what the document says of itself."""

import io

import html5lib
import pytest
from babel.messages.pofile import read_po
from lxml import etree

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError

from .translators import keep_text

LANGUAGES = LanguageCodes("en", "de")


def answer(texts: list[str]) -> list[TranslatedText]:
    return [TranslatedText("Äpfel – 苹果") for _ in texts]


@pytest.mark.parametrize(
    ("form", "page", "wanted"),
    [
        ("html", '<meta charset="iso-8859-1"><p>a</p>', '<meta charset="utf-8">'),
        (
            "html",
            "<meta http-equiv='Content-Type' content='text/html; charset=US-ASCII'><p>a</p>",
            "charset=UTF-8'>",
        ),
        ("html", "<META CHARSET=windows-1252><p>a</p>", "<META CHARSET=utf-8>"),
        ("xml", '<?xml version="1.0" encoding="ISO-8859-1"?><a>a</a>', 'encoding="UTF-8"?>'),
        ("xml", "<?xml version='1.0' encoding='us-ascii'?><a>a</a>", "encoding='utf-8'?>"),
        (
            "tmx",
            '<?xml version="1.0" encoding="ISO-8859-1"?><tmx><header srclang="en"/><body><tu>'
            '<tuv xml:lang="en"><seg>a</seg></tuv></tu></body></tmx>',
            'encoding="UTF-8"?>',
        ),
        (
            "po",
            'msgid ""\nmsgstr "Content-Type: text/plain; charset=ASCII\\n"\n\n'
            'msgid "a"\nmsgstr ""\n',
            "charset=UTF-8\\n",
        ),
        (
            "html",
            "<!-- <meta charset=latin1> --><meta charset=iso-8859-1><p>a",
            "<!-- <meta charset=latin1> --><meta charset=utf-8><p>",
        ),
        (
            "html",
            "<meta name=description content='about charset=latin1'><meta/charset=latin1><p>a",
            "<meta/charset=utf-8>",
        ),
        ("html", "<meta name=a content='b > c' charset=iso-8859-1><p>a", "' charset=utf-8>"),
        (
            "html",
            "<script>x='<meta charset=latin1>'</script><meta charset=latin1><p>a",
            "<script>x='<meta charset=latin1>'</script><meta charset=utf-8>",
        ),
        (
            "xml",
            "<?xml version='1.0' encoding='ISO-8859-1'?><html><head><meta charset='latin1'/>"
            "</head><body><p>a</p></body></html>",
            "encoding='UTF-8'?><html><head><meta charset='utf-8'/>",
        ),
        (
            "po",
            'msgid ""\nmsgstr "MIME-Version: 1.0\\nContent-Type: text/plain; charset=latin1\\n"\n'
            '\nmsgid "a"\nmsgstr ""\n',
            "charset=utf-8\\n",
        ),
        (
            "po",
            '# "Content-Type: text/plain; charset=KOI8-R\\n"\nmsgid ""\nmsgstr ""\n"Content-Type: '
            'text/plain; "\n"charset=ASCII\\n"\n\nmsgid "a"\nmsgstr ""\n',
            '"charset=UTF-8\\n',
        ),
        ("html", '<meta charset="utf-8"><p>a</p>', '<meta charset="utf-8">'),
        ("html", '<meta charset="{{ charset }}"><p>a</p>', '<meta charset="{{ charset }}">'),
    ],
)
def test_what_is_declared_is_true(form: str, page: str, wanted: str) -> None:
    translated = translate_content(page.encode("ascii"), form, answer, LANGUAGES)[0]  # type: ignore[arg-type]
    assert wanted in translated.decode("utf-8")
    if form in ("xml", "tmx"):
        assert "Äpfel – 苹果" in "".join(etree.fromstring(translated).itertext())
    if form == "po":
        assert read_po(io.BytesIO(translated)).get("a").string == "Äpfel – 苹果"


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "windows-1252", "koi8-r", "Shift_JIS"])
def test_other_encodings_are_read_as_they_are_declared(encoding: str) -> None:
    word = {"koi8-r": "слово", "Shift_JIS": "言葉"}.get(encoding, "café")
    page = f'<?xml version="1.0" encoding="{encoding}"?><a><code>{word}</code><b>a</b></a>'
    translated = translate_content(page.encode(encoding), "xml", answer, LANGUAGES)[0]  # type: ignore[arg-type]
    assert "".join(etree.fromstring(translated).itertext()) == f"{word}Äpfel – 苹果"
    page = f'<meta charset="{encoding}"><p>{word}</p>'
    kept = translate_content(page.encode(encoding), "html", keep_text, LANGUAGES)[0].decode()
    assert kept == f'<meta charset="{"UTF-8" if encoding.isupper() else "utf-8"}"><p>{word}</p>'


@pytest.mark.parametrize(
    ("label", "raw", "text"),
    [
        ("iso-8859-1", b"\x93quoted\x94 \x80", "“quoted” €"),
        ("us-ascii", b"caf\xe9", "café"),
        ("gb2312", "中文鎔".encode("gbk"), "中文鎔"),
        ("shift_jis", "①".encode("cp932"), "①"),
    ],
)
def test_names_of_encodings_mean_what_they_mean_to_browsers(
    label: str, raw: bytes, text: str
) -> None:
    page = f"<meta charset={label}><p>x ".encode() + raw
    read = html5lib.parse(page, namespaceHTMLElements=False, transport_encoding=None)
    assert text in "".join(read.itertext())
    assert translate_content(page, "html", keep_text, LANGUAGES)[0].decode().endswith(f"x {text}")


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("<html><head><title>", '<html><head><meta charset="utf-8"><title>'),
        (
            "<!-- <head> -->\n<HEAD id=a>\n  <title>",
            '<!-- <head> -->\n<HEAD id=a>\n  <meta charset="utf-8">\n  <title>',
        ),
    ],
)
def test_a_page_in_ascii_declares_the_encoding_of_its_translation(start: str, wanted: str) -> None:
    page = f"{start}a</title></head><body><header>x</header></body></html>".encode()
    translated = translate_content(page, "html", answer, LANGUAGES)[0]  # type: ignore[arg-type]
    assert translated.decode().startswith(wanted)
    read = html5lib.parse(translated, namespaceHTMLElements=False, transport_encoding=None)
    assert "Äpfel – 苹果" in "".join(read.itertext())


@pytest.mark.parametrize(
    "page",
    [
        "<p>a</p>",
        "<header>a</header>",
        '<head><meta charset="{{ c }}"></head><p>a',
        "<!-- <head> --><p>a",
    ],
)
def test_a_part_of_a_page_gets_no_declaration(page: str) -> None:
    translated = translate_content(page.encode(), "html", answer, LANGUAGES)[0]  # type: ignore[arg-type]
    assert translated.count(b"<meta") == page.count("<meta")


def test_a_page_in_ascii_that_stays_so_keeps_its_declaration() -> None:
    page = b'<meta charset="us-ascii"><p>a dog</p>'
    assert translate_content(page, "html", keep_text, LANGUAGES)[0] == page


def test_a_catalogue_in_another_charset_says_how_to_convert_it() -> None:
    page = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n# é\n'
    with pytest.raises(MtkitError) as caught:
        translate_content(page.encode("latin-1"), "po", keep_text, LANGUAGES)
    assert "line 3: invalid UTF-8" in caught.value.message
    assert "msgconv -t UTF-8" in caught.value.hint


def test_without_a_declaration_the_hint_names_a_converter() -> None:
    with pytest.raises(MtkitError, match="line 2: invalid UTF-8") as caught:
        translate_content("<p>a</p>\n<p>é</p>".encode("latin-1"), "html", keep_text, LANGUAGES)
    assert "iconv -f windows-1252 -t utf-8" in caught.value.hint
