"""Reads text that a document escapes: its characters, each with its spelling."""

import re
from collections.abc import Callable, Iterator

from mtkit.documents.document import EscapedText, Span
from mtkit.documents.units import MarkupPart

ReadEscape = Callable[[re.Match[str]], str | None]
"""Returns the value of an escape; None if it isn't one."""


def split_at_matches(
    pattern: re.Pattern[str], text: str, start: int, end: int
) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """Yields the spans of matches and of the text between them."""
    done = start
    for found in pattern.finditer(text, start, end):
        if done < found.start():
            yield done, found.start(), None
        done = found.end()
        yield *found.span(), found
    if done < end:
        yield done, end, None


def read_escaped_text(
    raw: str, escape: re.Pattern[str], read: ReadEscape
) -> tuple[EscapedText, ...]:
    """Returns a text with its escapes decoded, and other characters literally."""
    spelled: list[EscapedText] = []
    begin = 0
    for start, end, found in split_at_matches(escape, raw, 0, len(raw)):
        value = None if found is None else read(found)
        if value is not None:
            if begin < start:
                spelled.append(EscapedText(raw[begin:start], raw[begin:start]))
            spelled.append(EscapedText(value, raw[start:end]))
            begin = end
    if begin < len(raw):
        spelled.append(EscapedText(raw[begin:], raw[begin:]))
    return tuple(spelled)


def read_escaped_lines(
    text: str,
    span: Span,
    escape: re.Pattern[str],
    read: ReadEscape,
    ends_line: Callable[[EscapedText], bool],
) -> list[MarkupPart]:
    """Returns the lines of an escaped string at a span; `ends_line` recognizes line ends."""
    parts: list[MarkupPart] = []
    spelled: list[EscapedText] = []
    begin = position = span[0]
    for each in read_escaped_text(text[slice(*span)], escape, read):
        end = position + len(each.raw)
        if ends_line(each):
            parts.append(MarkupPart("text", begin, position, spelled=tuple(spelled)))
            parts.append(MarkupPart("edge", position, end))
            spelled, begin = [], end
        else:
            spelled.append(each)
        position = end
    return [*parts, MarkupPart("text", begin, position, spelled=tuple(spelled))]
