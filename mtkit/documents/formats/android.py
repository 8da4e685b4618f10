"""Android's string resources: strings, items of arrays and forms of plurals, with their escapes.

https://developer.android.com/guide/topics/resources/string-resource: apostrophes and quotes have a
backslash, and HTML may be markup, escaped, or in a CDATA section.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from mtkit.documents.document import Document, Escapes, Languages, Span, Token
from mtkit.documents.escaped_text import read_lines, read_utf16
from mtkit.documents.formats.string_markup import make_string_units
from mtkit.documents.units import Part, protect
from mtkit.documents.xml_tokens import (
    CDATA,
    XmlToken,
    end_of,
    escape_xml,
    find_cdata,
    find_inside,
    is_cdata_alone,
    leave_cdata,
    unescape_xml,
)

_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|&(?:apos|quot|#39|#34);|.)|&[^\s;&]++;|['\"]|[^\\&'\"]++|.", re.DOTALL
)
_HOLDERS = frozenset(["string-array", "plurals"])
"""Elements whose items are strings."""
_REFERENCE = re.compile(r"\s*+(?:@(?:null|empty|\+?[\w.:]++/\S++)|\?[\w.:/]++)\s*+")
"""The name of another resource."""


def read_android(document: Document, tokens: Sequence[XmlToken], languages: Languages) -> None:
    """Adds the units of a resource file."""
    translates = [True]
    holder = ""
    for index, token in enumerate(tokens):
        if token.kind == "close":
            translates.pop()
        elif token.kind == "open":
            is_left = token.attributes.get("translatable") == "false"
            translates.append(translates[-1] and not is_left)
            is_item = token.name == "item" and holder in _HOLDERS
            if token.name == "string" or is_item:
                _add_string(document, tokens, index, languages, is_left=not translates[-1])
            elif token.name != "item":
                holder = token.name


def _add_string(
    document: Document,
    tokens: Sequence[XmlToken],
    index: int,
    languages: Languages,
    *,
    is_left: bool,
) -> None:
    text = document.text
    first, last = tokens[index].end, tokens[tokens[index].partner].start
    if _REFERENCE.fullmatch(text[first:last]):
        return
    if is_left:
        visible = re.sub(r"<[^<>]*+>", "", text[first:last])
        document.skip(first, visible, "marked translatable=false")
        return
    is_cdata = is_cdata_alone(text, find_inside(tokens, index))
    parts: list[Part] = []
    position = index + 1
    while position < tokens[index].partner:
        token, end = tokens[position], tokens[end_of(tokens, position)].end
        if token.kind == "text":
            parts += _read_text(text, (token.start, end))
        elif token.kind == "cdata" and not is_cdata:
            parts.append(leave_cdata(document, token))
        elif token.kind == "cdata":
            parts += _read_text(text, find_cdata(text, token))
        elif token.name.endswith(":g") and token.kind == "open":
            raw = re.sub(r"<[^<>]*+>", "", text[token.start : end])
            parts.append(protect((token.start, end), unescape_xml(raw)))
            position = token.partner
        elif token.kind in ("open", "close"):
            parts.append(Part(token.kind, token.start, token.end, token.name))
        else:
            parts.append(Part("void", token.start, end))
        position += 1
    escapes = _CDATA_TEXT if is_cdata else _TEXT
    units = make_string_units(document, parts, escapes, languages)
    if units and not text[first : units[0].start].strip():
        units[0] = replace(units[0], join=_write_first)
    document.units += units


def _write_first(tokens: Sequence[Token]) -> str:
    """Escapes a sign that would make a string's first text the name of a resource."""
    raw = "".join(token.raw for token in tokens)
    return f"\\{raw}" if raw[:1] in ("@", "?") else raw


def _read_text(text: str, span: Span) -> list[Part]:
    r"""Returns the lines of some text; `\n` ends a line."""
    return read_lines(text, span, _ESCAPE, _read_character, lambda each: each == ("\n", r"\n"))


def _read_character(found: re.Match[str]) -> str:
    return "'" if found.group() == "'" else _read_escape(found.group())


def _read_escape(raw: str) -> str:
    if raw[0] == "&" and len(raw) > 1:
        return unescape_xml(raw)
    if raw in ("'", '"'):
        # A quote keeps space in a string; an apostrophe is only allowed between two quotes.
        return ""
    if raw[0] != "\\" or len(raw) == 1:
        return raw
    if raw[1] == "u" and len(raw) == 6:
        return read_utf16(raw[2:])
    return {"n": "\n", "t": "\t"}.get(raw[1], unescape_xml(raw[1:]))


def _escape(text: str) -> str:
    written = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
    return written.replace("\n", "\\n").replace("\t", "\\t")


def _read(raw: str, *, keeps_entities: bool = False) -> str:
    escapes = (found.group() for found in _ESCAPE.finditer(raw))
    return "".join(
        each if keeps_entities and each[0] == "&" else _read_escape(each) for each in escapes
    )


_TEXT = Escapes(
    lambda text: escape_xml(_escape(text)), lambda raw: _read(raw) if unescape_xml(raw) else ""
)
_CDATA_TEXT = Escapes(
    lambda text: _escape(text).replace("]]>", f"]]]]>{CDATA}>"),
    lambda raw: "" if "]]>" in raw else _read(raw, keeps_entities=True),
)
