"""A line that is too long, cut into sentences or less, and its translations joined again."""

import itertools
from collections.abc import Callable, Iterator

import regex

_CLOSERS = r"[\p{Pe}\p{Pf}\"'’”»]*+"
# No space follows a sentence's end in Chinese and Japanese. A run of full stops is tried once, from
# its first, and nothing of what was matched is given back: the time grows with the line, not with
# its square, and of two spaces both belong to the end.
_SENTENCE_END = regex.compile(
    rf"""[。！？｡] [\p{{Sentence_Terminal}}…]*+ {_CLOSERS} \s*+
    | (?<![\p{{Sentence_Terminal}}…]) [\p{{Sentence_Terminal}}…]++ {_CLOSERS} \s++ (?!\p{{Ll}})""",
    regex.VERBOSE,
)
_CLAUSE_END = regex.compile(
    rf"(?: [,;:،؛·]{_CLOSERS} | \s[-–—] )\s+ | [、，；：]{_CLOSERS}\s*", regex.VERBOSE
)
_SPACE = regex.compile(r"\s+")
_GRAPHEME = regex.compile(r"\X")
_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "yue", "bo", "dz")
"""Languages that put no space between sentences."""


def cut_line(line: str, fits: Callable[[str], bool]) -> list[str]:
    """Returns a line's sentences, and parts of those that are too long themselves.

    A part ends where a clause does, or between words, or between characters where there is nothing
    better, and every part but the first begins with what follows the space before it. Nothing but
    such spaces is left out.

    Args:
        line: Text without a newline.
        fits: Whether a text is short enough. Text of a single character is taken as it is.
    """
    return [part for sentence in _cut_at(_SENTENCE_END, line) for part in _halve(sentence, fits)]


def join_translations(parts: list[str], target_language: str) -> str:
    """Returns the translations of a line's parts as one line.

    Args:
        parts: In order; empty ones are left out.
        target_language: Its code, which may name a script or country too: `zh`, `zh_Hans`, `pt-BR`.
    """
    code = regex.split("[-_]", target_language.lower())[0]
    return ("" if code in _WITHOUT_SPACES else " ").join(filter(None, parts))


def _halve(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    if len(text) <= 1 or fits(text):
        yield text
        return
    first, second = _cut_near_the_middle(text)
    yield from _halve(first, fits)
    yield from _halve(second, fits)


def _cut_near_the_middle(text: str) -> tuple[str, str]:
    """Returns two parts; a better place than another is taken if it leaves a quarter each side."""
    middle, quarter = len(text) / 2, len(text) / 4
    for pattern in (_CLAUSE_END, _SPACE, _GRAPHEME):
        ends = [found.end() for found in pattern.finditer(text)]
        place = min(ends, key=lambda end: abs(end - middle), default=0)
        if abs(place - middle) <= quarter:
            break
    else:
        # One character with thousands of marks on it.
        place = len(text) // 2
    first, second = text[:place].strip(), text[place:].strip()
    return (first, second) if first and second else (text[: len(text) // 2], text[len(text) // 2 :])


def _cut_at(pattern: regex.Pattern[str], text: str) -> list[str]:
    places = [0, *(found.end() for found in pattern.finditer(text)), len(text)]
    parts = [text[first:end].strip() for first, end in itertools.pairwise(places)]
    return [part for part in parts if part]
