"""Finds words in text, and maps spans of a changed text to the original."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import regex

UNSPACED_SCRIPTS = (
    "Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan",
    "Tai_Le", "New_Tai_Lue", "Tai_Tham", "Tai_Viet", "Javanese", "Balinese",
)  # fmt: skip
"""Scripts without spaces between words, by Unicode's names."""
Span = tuple[int, int]
"""The start and end of a part of a text, in characters."""
FindWords = Callable[[str], list[Span]]
"""Returns the spans of a text's words."""
_BETWEEN_SPACES = regex.compile(r"[^ \t]+")
_SURROGATE = regex.compile(r"[\ud800-\udfff]")
_RUN = regex.compile(r"\S+")
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
"""Characters of scripts without spaces, for a set of a regular expression."""
# With punctuation, and full-width letters.
_WITHOUT_SPACES = regex.compile(rf"[\u3000-\u303f\uff00-\uffef{UNSPACED}]")
_MAX_MATCHED = 2_000
"""Maximum characters of a text for exact matching of changes: its time is quadratic."""


def replace_surrogates(text: str) -> str:
    """Returns text whose lone surrogates, which UTF-8 can't write, are U+FFFD."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def uses_spaces(text: str) -> bool:
    """Returns whether a text has only scripts that put space between words."""
    return text.isascii() or not _WITHOUT_SPACES.search(text)


def find_words(text: str, pieces: Sequence[Span]) -> list[Span]:
    """Returns the words of a text: maximal runs without space."""
    # In scripts without spaces, runs are also split where one of a tokenizer's `pieces` ends.
    if uses_spaces(text):
        return [found.span() for found in _RUN.finditer(text)]
    words: list[Span] = []
    ends = sorted({end for _, end in pieces})
    for found in _RUN.finditer(text):
        start = found.start()
        if _WITHOUT_SPACES.search(found[0]):
            for end in ends[bisect_left(ends, found.start() + 1) : bisect_left(ends, found.end())]:
                if _WITHOUT_SPACES.search(text[end - 1 : end + 1]):
                    words.append((start, end))
                    start = end
        words.append((start, found.end()))
    return words


def strip_span(text: str, span: Span) -> Span:
    """Returns a span without the space at its ends; an empty one if it is all space."""
    start, end = span
    stripped = text[start:end].lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())


def replace_spans(text: str, others: Iterable[tuple[Span, str]]) -> str:
    """Returns a text with spans, which are in order, replaced by other text."""
    parts, position = [], 0
    for (start, end), other in others:
        parts += [text[position:start], other]
        position = end
    return "".join([*parts, text[position:]])


def blank_out(text: str, spans: Iterable[Span], gap: str) -> str:
    """Returns a text with spans, in order, filled with a character."""
    return replace_spans(text, (((start, end), gap * (end - start)) for start, end in spans))


def count_between_spaces(text: str) -> int:
    """Returns the number of words, if only spaces and tabs separate them."""
    return len(_BETWEEN_SPACES.findall(text))


def find_between_spaces(text: str) -> list[Span]:
    """Returns the spans of words, if only spaces and tabs separate them."""
    return [found.span() for found in _BETWEEN_SPACES.finditer(text)]


def find_owners(pieces: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Returns for each piece the index of the first word that it overlaps, or -1; both in order."""
    owners = []
    index, num_words = 0, len(words)
    for start, end in pieces:
        while index < num_words and words[index][1] <= start:
            index += 1
        is_inside = index < num_words and words[index][0] < end and start < end
        owners.append(index if is_inside else -1)
    return owners


def map_back(spans: Sequence[Span], changed: str, original: str) -> list[Span]:
    """Returns the spans in the original text that match spans of a changed text."""
    if max(len(changed), len(original)) > _MAX_MATCHED:
        scale = len(original) / max(len(changed), 1)
        return [(round(start * scale), round(end * scale)) for start, end in spans]
    starts = [0] * (len(changed) + 1)
    ends = [0] * (len(changed) + 1)
    first = changed_first = 0
    for last, changed_last in [*_match(original, changed), (len(original), len(changed))]:
        is_same = last - first == changed_last - changed_first
        for index in range(changed_first, changed_last):
            offset = index - changed_first
            starts[index] = first + offset if is_same else first
            ends[index + 1] = first + offset + 1 if is_same else last
        if changed_last < len(changed):
            starts[changed_last], ends[changed_last + 1] = last, last + 1
        first, changed_first = last + 1, changed_last + 1
    starts[len(changed)] = len(original)
    return [(starts[start], max(ends[end], starts[start])) for start, end in spans]


def _match(original: str, changed: str) -> list[tuple[int, int]]:
    """Returns the indices of equal characters in the fewest edits from one text to the other."""
    rows, columns = (
        np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        for text in (original, changed)
    )
    indices = np.arange(len(columns) + 1)
    distances = np.empty((len(rows) + 1, len(columns) + 1), np.int16)
    distances[0] = indices
    for row, character in enumerate(rows):
        above = distances[row]
        found = np.minimum(above[1:] + 1, above[:-1] + (columns != character))
        # Insertions: the minimum over all columns to the left.
        found = np.minimum.accumulate(np.concatenate(([row + 1], found)) - indices) + indices
        distances[row + 1] = found
    matches = []
    row, column = len(rows), len(columns)
    while row and column:
        differs = int(rows[row - 1] != columns[column - 1])
        if distances[row, column] == distances[row - 1, column - 1] + differs:
            row, column = row - 1, column - 1
            if not differs:
                matches.append((row, column))
        elif distances[row, column] == distances[row - 1, column] + 1:
            row -= 1
        else:
            column -= 1
    return matches[::-1]
