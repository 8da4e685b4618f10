"""Android's string resources: strings, items of arrays and forms of plurals, with its escapes.

https://developer.android.com/guide/topics/resources/string-resource: apostrophes and quotes are
written behind a backslash, and HTML may be markup, escaped, or in a CDATA section.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from mtkit.documents.document import Document, Escapes, Languages, Spelled, Token
from mtkit.documents.formats.string_markup import make_string_units
from mtkit.documents.units import Part
from mtkit.documents.xml_tokens import XmlToken, end_of, escape_xml, unescape_xml

_CDATA = "<![CDATA["
_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|&(?:apos|quot|#39|#34);|.)|&[^\s;&]++;|['\"]|[^\\&'\"]++|.", re.DOTALL
)
_HOLDERS = frozenset(["string-array", "plurals"])
"""Elements whose items are strings."""
_REFERENCE = re.compile(r"\s*+(?:@(?:null|empty|\+?[\w.:]++/\S++)|\?[\w.:/]++)\s*+")
"""The name of another resource."""


def read_android(document: Document, tokens: Sequence[XmlToken], languages: Languages) -> None:
    """Adds the units of a file of resources.

    Args:
        document: It.
        tokens: Its tokens.
        languages: Of the translation.
    """
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
    inside = tokens[index + 1 : tokens[index].partner]
    if _REFERENCE.fullmatch(text[first:last]):
        return
    if is_left:
        visible = re.sub(r"<[^<>]*+>", "", text[first:last])
        document.skip(first, visible, "marked translatable=false")
        return
    is_cdata = [each.kind for each in inside if text[each.start : each.end].strip()] == ["cdata"]
    parts: list[Part] = []
    position = index + 1
    while position < tokens[index].partner:
        token, end = tokens[position], tokens[end_of(tokens, position)].end
        if token.kind == "text":
            parts += _read_text(text, token.start, end)
        elif token.kind == "cdata" and not is_cdata:
            # Its tags are none outside of it.
            inner = text[token.start + len(_CDATA) : end - len("]]>")]
            parts.append(Part("protected", token.start, end, spelled=(Spelled(inner, inner),)))
            document.skip(token.start, inner, "in CDATA")
        elif token.kind == "cdata":
            parts += _read_text(text, token.start + len(_CDATA), end - len("]]>"))
        elif token.name.endswith(":g") and token.kind == "open":
            raw = re.sub(r"<[^<>]*+>", "", text[token.start : end])
            visible = unescape_xml(raw)
            parts.append(Part("protected", token.start, end, spelled=(Spelled(visible, visible),)))
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
    """Returns the first text of a string; a sign there would make it another resource's name."""
    raw = "".join(token.raw for token in tokens)
    return f"\\{raw}" if raw[:1] in ("@", "?") else raw


def _read_text(text: str, start: int, end: int) -> list[Part]:
    r"""Returns the lines of some text; `\n` ends a line."""
    parts: list[Part] = []
    spelled: list[Spelled] = []
    begin = start
    for found in _ESCAPE.finditer(text, start, end):
        raw = found.group()
        value = raw if raw == "'" else _read_escape(raw)
        if value == "\n" and raw == r"\n":
            parts.append(Part("text", begin, found.start(), spelled=tuple(spelled)))
            parts.append(Part("edge", *found.span()))
            spelled, begin = [], found.end()
        else:
            spelled.append(Spelled(value, raw))
    return [*parts, Part("text", begin, end, spelled=tuple(spelled))]


def _read_escape(raw: str) -> str:
    if raw[0] == "&" and len(raw) > 1:
        return unescape_xml(raw)
    if raw in ("'", '"'):
        # A quote keeps space in a string, and an apostrophe is allowed between two of them alone.
        return ""
    if raw[0] != "\\" or len(raw) == 1:
        return raw
    if raw[1] == "u" and len(raw) == 6:
        code = int(raw[2:], 16)
        # Half a character is none.
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
    return {"n": "\n", "t": "\t"}.get(raw[1], unescape_xml(raw[1:]))


def _escape(text: str) -> str:
    written = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
    return written.replace("\n", "\\n").replace("\t", "\\t")


def _read(raw: str) -> str:
    return "".join(_read_escape(found.group()) for found in _ESCAPE.finditer(raw))


_TEXT = Escapes(
    lambda text: escape_xml(_escape(text)), lambda raw: _read(raw) if unescape_xml(raw) else ""
)
_CDATA_TEXT = Escapes(
    lambda text: _escape(text).replace("]]>", f"]]]]>{_CDATA}>"),
    lambda raw: (
        ""
        if "]]>" in raw
        else "".join(
            raw_escape if raw_escape[0] == "&" else _read_escape(raw_escape)
            for raw_escape in (found.group() for found in _ESCAPE.finditer(raw))
        )
    ),
)
