"""Segments of XLIFF 1.2 and 2."""

from collections.abc import Iterator, Sequence

from mtkit.errors import MtkitError
from mtkit.text.xml_tokens import (
    XmlToken,
    children,
    find_inside,
    find_local_name,
    join_token_text,
    read_xml_tokens,
)

XLIFF_SEGMENTS = ("trans-unit", "segment")
"""Elements with a source and a target, in 1.2 and 2."""
CODES = frozenset(["bpt", "ept", "it", "ph", "ut"])
"""Elements with a program's own markup, in XLIFF 1.2 and TMX."""
_LANGUAGES = {"xliff": ("srcLang", "trgLang"), "file": ("source-language", "target-language")}
_FINISHED = ("", "translated", "reviewed", "final", "signed-off")
_MACHINE = ("leveraged-mt", "mt-suggestion")


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
        keys = _LANGUAGES.get(find_local_name(token))
        if keys and token.kind == "open" and keys[0] in token.attributes:
            yield token.attributes[keys[0]], token.attributes.get(keys[1], "")


def read_segments(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yields finished segments: position, id, source and target without tags and codes.

    Left out: `translate="no"`, `approved="no"`, states before `translated`, and unreviewed machine
    translation.

    Raises:
        MtkitError: The file is malformed.
    """
    tokens = read_xml_tokens(text)
    if not any(find_local_name(token) == "xliff" for token in tokens):
        raise MtkitError("line 1: not XLIFF: no element <xliff>")
    unit = ""
    for index, is_translated in walk_xliff(tokens):
        token = tokens[index]
        name = find_local_name(token)
        if name == "unit":
            unit = token.attributes.get("id", "")
        if name not in XLIFF_SEGMENTS or token.kind != "open" or not is_translated:
            continue
        inside = {find_local_name(tokens[each]): each for each in children(tokens, index)}
        if "source" in inside and "target" in inside and _is_finished(token, tokens, inside):
            source, target = (
                _read_plain(text, tokens, inside[key]) for key in ("source", "target")
            )
            yield token.start, token.attributes.get("id") or unit, source, target


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
    inside = find_inside(tokens, element)
    kept: list[XmlToken] = []
    end = 0
    for token in inside:
        if token.kind == "open" and find_local_name(token) in CODES and token.start >= end:
            end = tokens[token.partner].end
        if token.start >= end:
            kept.append(token)
    return join_token_text(text, kept)
