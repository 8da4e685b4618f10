"""Android's string resources: strings, items of arrays and forms of plurals, with their escapes.

https://developer.android.com/guide/topics/resources/string-resource: apostrophes and quotes have a
backslash, and HTML may be markup, escaped, or in a CDATA section.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from mtkit.documents.document import Document, Escapes, LanguageCodes, Span, Token
from mtkit.documents.escaped_text import read_escaped_lines
from mtkit.documents.formats.string_markup import make_string_units
from mtkit.documents.units import MarkupPart, protect
from mtkit.documents.xml_text import leave_cdata
from mtkit.text.string_files.android import (
    ESCAPE,
    AndroidString,
    find_strings,
    read_android_escape,
    unescape_android,
)
from mtkit.text.xml_tokens import (
    CDATA,
    XmlToken,
    end_of,
    escape_xml,
    find_cdata,
    find_inside,
    is_cdata_alone,
    unescape_xml,
)


def read_resources(
    document: Document, tokens: Sequence[XmlToken], languages: LanguageCodes
) -> None:
    """Adds the units of a resource file."""
    document.are_program_strings = True
    for each in find_strings(document.text, tokens):
        _add_string(document, tokens, each, languages)


def _add_string(
    document: Document,
    tokens: Sequence[XmlToken],
    string: AndroidString,
    languages: LanguageCodes,
) -> None:
    text, index = document.text, string.element
    first, last = tokens[index].end, tokens[tokens[index].partner].start
    if not string.is_translatable:
        visible = re.sub(r"<[^<>]*+>", "", text[first:last])
        document.skip(first, visible, "marked translatable=false")
        return
    is_cdata = is_cdata_alone(text, find_inside(tokens, index))
    parts: list[MarkupPart] = []
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
            parts.append(MarkupPart(token.kind, token.start, token.end, token.name))
        else:
            parts.append(MarkupPart("void", token.start, end))
        position += 1
    escapes = _CDATA_TEXT if is_cdata else _TEXT
    units = make_string_units(document, parts, escapes, languages)
    if units and not text[first : units[0].start].strip():
        units[0] = replace(units[0], join=_write_first)
    document.units += [replace(unit, name=string.key) for unit in units]


def _write_first(tokens: Sequence[Token]) -> str:
    """Escapes a sign that would make a string's first text the name of a resource."""
    raw = "".join(token.raw for token in tokens)
    return f"\\{raw}" if raw[:1] in ("@", "?") else raw


def _read_text(text: str, span: Span) -> list[MarkupPart]:
    r"""Returns the lines of some text; `\n` ends a line, and quotes around it keep its spaces."""
    quoted = _QUOTED.fullmatch(text, *span)
    span = span if quoted is None else quoted.span("inner")
    return read_escaped_lines(
        text, span, ESCAPE, _read_character, lambda each: each == ("\n", r"\n")
    )


def _read_character(found: re.Match[str]) -> str:
    return "'" if found.group() == "'" else read_android_escape(found.group())


def _escape(text: str) -> str:
    written = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
    return written.replace("\n", "\\n").replace("\t", "\\t")


_QUOTED = re.compile(r'\s*+"(?P<inner>(?:[^"\\]|\\.)*+)"\s*+', re.DOTALL)
_TEXT = Escapes(
    lambda text: escape_xml(_escape(text)),
    lambda raw: unescape_android(raw) if unescape_xml(raw) else "",
)
_CDATA_TEXT = Escapes(
    lambda text: _escape(text).replace("]]>", f"]]]]>{CDATA}>"),
    lambda raw: "" if "]]>" in raw else unescape_android(raw, keeps_entities=True),
)
