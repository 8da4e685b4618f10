"""Splits text into sentences by sentencex, with a few rules of mtkit's own."""

import bisect
import itertools
from collections.abc import Iterator, Sequence

import regex

from mtkit.text.languages import find_main_code, find_main_language
from mtkit.text.words import UNSPACED, Span, replace_surrogates, strip_span

_WINDOW = 2_048
"""Characters per call of the library: its time is quadratic for some texts."""
_CONTEXT = 64
"""Characters before a boundary that rules look at."""
_CLOSERS = r"[\p{Pe}\p{Pf}\"'’”»]*+"
# A run of marks is tried once, from its first, without backtracking: the time is linear in the
# text.
_WIDE_END = regex.compile(
    rf"(?<![。！？｡]) [。！？｡]++ [\p{{Sentence_Terminal}}…]*+ {_CLOSERS}", regex.VERBOSE
)
_NARROW_END = regex.compile(rf"[.!?…]{_CLOSERS}$")
_QUOTED_END = regex.compile(r"[」』）]$")
_ABBREVIATIONS = {"fr": regex.compile(r"(?<![\w.])MM?\.$")}
"""Abbreviations that the library lacks: Monsieur was most of its errors in French news."""
_QUOTE_PARTICLE = regex.compile(r"と|って")
_SPACELESS = regex.compile(rf"[{UNSPACED}\u3000-\u303f]")
_LAST_WORD = regex.compile(r"(?<=\s)\S++$")
_LETTER = regex.compile(r"\p{L}")
_WITHOUT_SPACES = (
    *("zh", "ja", "th", "lo", "km", "my", "yue", "bo", "dz"),
    *("zho", "cmn", "jpn", "tha", "lao", "khm", "mya", "bod", "dzo", "shn"),
)
"""Languages without a space between sentences."""


def find_sentences(text: str, language: str = "", keep: Sequence[Span] = ()) -> list[Span]:
    """Returns the spans of a text's sentences, in order; only space is between them.

    The time is linear in the text's length. An empty or unknown `language` gets the rules of
    English, which most languages share. No sentence ends inside a span of `keep`.
    """
    ends = sorted({0, *_find_ends(text, find_main_language(language)), len(text)})
    found = [strip_span(text, span) for span in itertools.pairwise(ends)]
    return _join(text, [span for span in found if span[0] < span[1]], keep)


def find_gap(language: str) -> str:
    """Returns what a language has between two sentences of a line: a space, or nothing."""
    is_without = find_main_code(language) in _WITHOUT_SPACES
    return "" if is_without else " "


def _find_ends(text: str, language: str) -> Iterator[int]:
    # Imported here: most commands never split a text.
    from sentencex import get_sentence_boundaries  # noqa: PLC0415

    # The library rejects lone surrogates.
    readable, position = replace_surrogates(text), 0
    while position < len(text):
        window = readable[position : position + _WINDOW]
        found = [each["end_index"] for each in get_sentence_boundaries(language, window)]
        ends = [end for end in found if 0 < end < len(window)]
        yield from (
            position + end for end in ends if not _continues(text, position + end, language)
        )
        if position + len(window) == len(text):
            break
        position += _find_restart(window, ends)
    for match in _WIDE_END.finditer(text):
        if match.end() < len(text) and not _continues(text, match.end(), language):
            yield match.end()


def _find_restart(window: str, ends: Sequence[int]) -> int:
    """Returns where the next window begins: at the last sentence, unless that is long."""
    # A long one is skipped up to its last word, so that each step is at least half a window.
    word = _LAST_WORD.search(window)
    starts = (ends[-1] if ends else 0, word.start() if word is not None else 0)
    return next((start for start in starts if start >= _WINDOW // 2), len(window))


def _continues(text: str, end: int, language: str) -> bool:
    """Returns whether a sentence continues after an apparent end."""
    around = text[max(0, end - _CONTEXT) : end]
    before = around.rstrip()
    if len(before) < len(around) or text[end].isspace():
        abbreviations = _ABBREVIATIONS.get(language)
        return abbreviations is not None and abbreviations.search(before) is not None
    if _QUOTED_END.search(before):
        return _QUOTE_PARTICLE.match(text, end) is not None
    return _NARROW_END.search(before) is not None and not _SPACELESS.match(text, end)


def _join(text: str, spans: Sequence[Span], keep: Sequence[Span]) -> list[Span]:
    """Returns sentences, joined if one has no letter or a span of `keep` crosses their border."""
    # A sentence without a letter, such as a list item's number, joins the next one; at the end, the
    # previous one.
    keep = _unite(keep)
    starts = [start for start, _ in keep]
    joined: list[Span] = []
    has_letter = True
    for start, end in spans:
        index = bisect.bisect_left(starts, start) - 1
        is_kept = bool(joined) and index >= 0 and keep[index][1] > joined[-1][1]
        is_word = _LETTER.search(text, start, end) is not None
        if is_kept or not has_letter:
            joined[-1] = (joined[-1][0], end)
            has_letter = has_letter or is_word
        else:
            joined.append((start, end))
            has_letter = is_word
    if len(joined) > 1 and not has_letter:
        (start, _), (_, end) = joined[-2:]
        joined[-2:] = [(start, end)]
    return joined


def _unite(spans: Sequence[Span]) -> list[Span]:
    """Returns spans in order, with overlapping ones united."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start < united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united
