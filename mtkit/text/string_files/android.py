"""Strings of Android's resources, and their escapes.

https://developer.android.com/guide/topics/resources/string-resource
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mtkit.text.string_files.escapes import read_utf16
from mtkit.text.xml_tokens import XmlToken, unescape_xml

ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|&(?:apos|quot|#39|#34);|.)|&[^\s;&]++;|['\"]|[^\\&'\"]++|.", re.DOTALL
)
_REFERENCE = re.compile(r"\s*+(?:@(?:null|empty|\+?[\w.:]++/\S++)|\?[\w.:/]++)\s*+")
"""A reference to another resource."""


class AndroidString(NamedTuple):
    """A string: its key, such as `files[other]`, and the position of its element among tokens."""

    key: str
    element: int
    is_translatable: bool


_ITEM = ("item", "string")
"""Name and type of an item that is a string of its own."""


def find_strings(text: str, tokens: Sequence[XmlToken]) -> Iterator[AndroidString]:
    """Yields strings, items of arrays and forms of plurals; other resources' names aren't."""
    translates = [True]
    holder: XmlToken | None = None
    index = num_items = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token.kind == "close":
            translates.pop()
        if token.kind != "open":
            continue
        is_translatable = translates[-1] and token.attributes.get("translatable") != "false"
        key = token.attributes.get("name", "")
        if token.name == "item" and holder is not None:
            form = token.attributes.get("quantity", num_items)
            key = f"{holder.attributes.get('name', '')}[{form}]"
            num_items += 1
        elif token.name != "string" and (token.name, token.attributes.get("type")) != _ITEM:
            translates.append(is_translatable)
            if token.name != "item":
                holder = token if token.name in ("string-array", "plurals") else None
                num_items = 0
            continue
        if not _REFERENCE.fullmatch(text, token.end, tokens[token.partner].start):
            yield AndroidString(key, index - 1, is_translatable)
        index = token.partner + 1


def read_android_escape(raw: str) -> str:
    """Returns the value of a match of `ESCAPE`."""
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


def unescape_android(raw: str, *, keeps_entities: bool = False) -> str:
    """Returns the text of a string."""
    escapes = (found.group() for found in ESCAPE.finditer(raw))
    return "".join(
        each if keeps_entities and each[0] == "&" else read_android_escape(each) for each in escapes
    )
