"""Segments of XLIFF 1.2 and 2."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mtkit.errors import MtkitError
from mtkit.text.xml_tokens import (
    XmlToken,
    children,
    find_inside,
    find_local_name,
    join_token_text,
    read_xml_tokens,
    unescape_xml,
)

XLIFF_SEGMENTS = ("trans-unit", "segment")
"""Elements with a source and a target, in 1.2 and 2."""
CODES = frozenset(["bpt", "ept", "it", "ph", "ut"])
"""Elements with a program's own markup, in XLIFF 1.2 and TMX."""
_LANGUAGES = {"xliff": ("srcLang", "trgLang"), "file": ("source-language", "target-language")}
_FINISHED = ("", "translated", "reviewed", "final", "signed-off")
_MACHINE = ("leveraged-mt", "mt-suggestion")
_LINE_BREAKS = frozenset(["lb", "x-lb", "x-br", "xlf:lb"])
_BR_TAG = re.compile(r"\s*+<\s*+br\b", re.IGNORECASE)


class Segment(NamedTuple):
    """A finished segment; `languages` are those of its file, empty where none is named."""

    position: int
    key: str
    source: str
    target: str
    languages: tuple[str, str]


def walk_xliff(tokens: Sequence[XmlToken]) -> Iterator[tuple[int, bool]]:
    """Yields the index of each element's tag, and whether the element is to be translated."""
    translates = [True]
    for index, token in enumerate(tokens):
        if token.kind == "close":
            translates.pop()
        if token.kind in ("open", "empty"):
            is_text = find_local_name(token) == "mrk"
            setting = None if is_text else token.attributes.get("translate")
            is_translated = setting == "yes" if setting in ("yes", "no") else translates[-1]
            if token.kind == "open":
                translates.append(is_translated)
            yield index, is_translated


def read_languages(text: str) -> Iterator[tuple[str, str]]:
    """Yields the source and target language of each file in XLIFF; empty where none is named."""
    for token in read_xml_tokens(text):
        if languages := _find_languages(token):
            yield languages


def _find_languages(token: XmlToken) -> tuple[str, str] | None:
    """Returns the languages that a file's or a document's tag names, if it is such a tag."""
    keys = _LANGUAGES.get(find_local_name(token))
    if keys and token.kind == "open" and keys[0] in token.attributes:
        return token.attributes[keys[0]], token.attributes.get(keys[1], "")
    return None


def is_line_break(attributes: Mapping[str, str], content: str = "") -> bool:
    """Checks that a code of XLIFF or TMX with this content is a line break of the document."""
    kinds = {attributes.get(key) for key in ("ctype", "type", "subType")}
    shown = (content, attributes.get("equiv-text", ""), attributes.get("disp", ""))
    return not kinds.isdisjoint(_LINE_BREAKS) or any(map(_BR_TAG.match, shown))


def read_segments(text: str) -> Iterator[Segment]:
    """Yields finished segments, without tags and codes; a code for a line break is a space.

    Left out: `translate="no"`, `approved="no"`, states before `translated`, and unreviewed machine
    translation.

    Raises:
        MtkitError: The file is malformed.
    """
    tokens = read_xml_tokens(text)
    if not any(find_local_name(token) == "xliff" for token in tokens):
        raise MtkitError("line 1: not XLIFF: no element <xliff>")
    unit, languages = "", ("", "")
    for index, is_translated in walk_xliff(tokens):
        token = tokens[index]
        name = find_local_name(token)
        languages = _find_languages(token) or languages
        if name == "unit":
            unit = token.attributes.get("id", "")
        if name not in XLIFF_SEGMENTS or token.kind != "open" or not is_translated:
            continue
        inside = {find_local_name(tokens[each]): each for each in children(tokens, index)}
        if "source" in inside and "target" in inside and _is_finished(token, tokens, inside):
            source, target = (
                _read_plain(text, tokens, inside[key]) for key in ("source", "target")
            )
            key = token.attributes.get("id") or unit
            yield Segment(token.start, key, source, target, languages)


def _is_finished(token: XmlToken, tokens: Sequence[XmlToken], inside: dict[str, int]) -> bool:
    target = tokens[inside["target"]].attributes
    state = token.attributes.get("state", "") or target.get("state", "")
    return (
        state in _FINISHED
        and token.attributes.get("approved") != "no"
        and target.get("state-qualifier") not in _MACHINE
    )


def _read_plain(text: str, tokens: Sequence[XmlToken], element: int) -> str:
    """Returns an element's text without tags and codes."""
    parts: list[str] = []
    end = 0
    for token in find_inside(tokens, element):
        if token.start < end:
            continue
        content = ""
        if token.kind == "open" and find_local_name(token) in CODES:
            closing = tokens[token.partner]
            content, end = unescape_xml(text[token.end : closing.start]), closing.end
        if token.kind in ("open", "empty") and is_line_break(token.attributes, content):
            parts.append(" ")
        parts.append(join_token_text(text, [token]))
    return "".join(parts)
