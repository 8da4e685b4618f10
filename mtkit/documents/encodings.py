"""Decodes and encodes documents, and updates the encodings that they declare."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import webencodings

from mtkit.documents.formats.html_elements import read_attributes
from mtkit.errors import MtkitError
from mtkit.text.string_files.read_strings import find_byte_order_mark

_XML = re.compile(r"""\A\s*+<\?xml\s[^<>]*?encoding\s*+=\s*+["']([A-Za-z0-9._:-]++)["']""")
_HTML = re.compile(
    r"""<!--(?:.*?-->|.*+)|<(script|style|title|textarea)\b(?:.*?</\1|.*+)"""
    r"""|<(?P<meta>meta)[\s/](?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""",
    re.IGNORECASE | re.DOTALL,
)
_HEAD_TAG = re.compile(r"<!--(?:.*?-->|.*+)|<head(?:\s[^<>]*+)?>(\s*+)", re.IGNORECASE | re.DOTALL)
_PO_HEADER = re.compile(r'(?:\A|\n)msgid[ \t]++""\s++msgstr\s++((?:"(?:[^"\\\n]|\\.)*+"\s*+)++)')
_CHARSET = re.compile(r"""charset\s*+=\s*+["']?+([A-Za-z0-9._:-]++)""", re.IGNORECASE)
_HEAD = 65_536
"""Characters at the beginning of a document that may declare its encoding."""
_IN_XML = ("html", "xml", "xliff", "tmx", "docx", "pptx", "odt")
_UNICODE = ("utf-8", "utf-16le", "utf-16be")


class _Declaration(NamedTuple):
    """The name of an encoding in a document, and its span."""

    label: str
    start: int
    end: int

    def find_encoding(self) -> str:
        """Returns the encoding's name as browsers read it (WHATWG Encoding); "" if unknown."""
        found = webencodings.lookup(self.label)
        return "" if found is None else str(found.name)


class DocumentEncoding:
    """A document's byte order mark, encoding by Python's name, format, and whether it is ASCII."""

    def __init__(self, mark: bytes, name: str, form: str, *, is_ascii: bool = False) -> None:
        self._mark, self._name, self._form, self._is_ascii = mark, name, form, is_ascii

    def encode(self, text: str) -> bytes:
        """Returns a translation in this encoding.

        A declared encoding that can't write the text is changed to UTF-8. A page in ASCII that
        declares none gets a declaration: without it browsers guess another.
        """
        if self._name == "utf-8" and not text.isascii():
            text = _declare_utf8(text, self._form)
            if self._is_ascii and self._form == "html" and not self._mark:
                text = _add_charset(text)
        return self._mark + text.encode(self._name)


def decode_document(content: bytes, form: str) -> tuple[str, DocumentEncoding]:
    """Returns a document's text, and its translation's encoding: UTF-8, or by its BOM.

    Raises:
        MtkitError: It has another encoding without declaring it.
    """
    mark, name = find_byte_order_mark(content)
    try:
        encoding = DocumentEncoding(mark, name, form, is_ascii=content.isascii())
        return content[len(mark) :].decode(name), encoding
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(mark) + error.start) + 1
        head = content[:_HEAD].decode("latin-1")
        declared = [each.find_encoding() for each in _list_declarations(head, form)]
        other = next((each for each in declared if each and each not in _UNICODE), "")
        if other and form != "po" and not mark:
            try:
                codec = webencodings.lookup(other).codec_info
                return codec.decode(content, "strict")[0], DocumentEncoding(b"", "utf-8", form)
            except ValueError:
                # It isn't in that encoding either.
                other = ""
        hint = f"convert it first, for example: iconv -f {other or 'windows-1252'} -t utf-8"
        if form == "po":
            hint = "convert it first: msgconv -t UTF-8 FILE"
        raise MtkitError(f"line {line}: invalid {name.upper()}", hint) from error


def _list_declarations(text: str, form: str) -> list[_Declaration]:
    """Returns the encodings that a document declares, the decisive one first."""
    found: list[_Declaration] = []
    if form in _IN_XML and (prolog := _XML.match(text)):
        found.append(_Declaration(prolog[1], *prolog.span(1)))
    if form == "html" or (form == "xml" and "<html" in text[:_HEAD]):
        found += _list_metas(text)
    header = _PO_HEADER.search(text, 0, _HEAD) if form == "po" else None
    if header is not None and (charset := _CHARSET.search(text, *header.span(1))):
        found.append(_Declaration(charset[1], *charset.span(1)))
    return found


def _list_metas(text: str) -> Iterator[_Declaration]:
    """Yields the declarations of a page's `<meta>` elements."""
    for tag in _HTML.finditer(text, 0, _HEAD):
        if tag["meta"] is None:
            continue
        attributes = read_attributes(text, *tag.span())
        span, value = attributes.get("charset", ((0, 0), ""))
        if value:
            yield _Declaration(value, *span)
        elif attributes.get("http-equiv", ((0, 0), ""))[1].lower() == "content-type":
            charset = _CHARSET.search(text, *attributes.get("content", ((0, 0), ""))[0])
            if charset is not None:
                yield _Declaration(charset[1], *charset.span(1))


def _declare_utf8(text: str, form: str) -> str:
    """Returns a document with UTF-8 in all its declarations."""
    for label, start, end in sorted(_list_declarations(text, form), key=lambda each: -each.start):
        encoding = _Declaration(label, start, end).find_encoding()
        if encoding != "utf-8" and (encoding or form == "po"):
            text = f"{text[:start]}{'UTF-8' if label.isupper() else 'utf-8'}{text[end:]}"
    return text


def _add_charset(text: str) -> str:
    """Returns a page that declares UTF-8, if it has a head and declares nothing."""
    heads = (tag for tag in _HEAD_TAG.finditer(text, 0, _HEAD) if tag[1] is not None)
    tag = next(heads, None)
    if tag is None or next(_list_metas(text), None) is not None:
        return text
    return f'{text[: tag.start(1)]}{tag[1]}<meta charset="utf-8">{text[tag.start(1) :]}'
