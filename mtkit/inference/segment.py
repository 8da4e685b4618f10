"""Cuts a line that is too long into sentences or smaller parts, and joins their translations."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import regex

from mtkit.inference.translation import Hypothesis, join_alignments

Span = tuple[int, int]
"""Where a part of a text begins and ends, in characters."""

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

_WITHOUT_SPACES = (
    *("zh", "ja", "th", "lo", "km", "my", "yue", "bo", "dz"),
    *("zho", "cmn", "jpn", "tha", "lao", "khm", "mya", "bod", "dzo", "shn"),
)
"""Languages that put no space between sentences."""


def cut_line(line: str, fits: Callable[[str], bool]) -> list[Span]:
    """Returns where a line's sentences are, and parts of those that are too long themselves.

    A part ends where a clause does, or between words, or between characters where there is nothing
    better, and begins behind the space before it. Between parts, before the first and behind the
    last there is nothing but such spaces.

    Args:
        line: Text without a newline.
        fits: Whether a text is short enough. Text of a single character is taken as it is.
    """
    return [part for sentence in find_sentences(line) for part in _halve(line, sentence, fits)]


def find_sentences(line: str) -> list[Span]:
    """Returns where a line's sentences are; between them is nothing but space."""
    ends = [0, *(found.end() for found in _SENTENCE_END.finditer(line)), len(line)]
    sentences = [_strip(line, (start, end)) for start, end in itertools.pairwise(ends)]
    return [(start, end) for start, end in sentences if start < end]


def _halve(line: str, span: Span, fits: Callable[[str], bool]) -> Iterator[Span]:
    start, end = span
    if end - start <= 1 or fits(line[start:end]):
        yield span
        return
    middle = start + _find_cut(line[start:end])
    halves = [_strip(line, half) for half in ((start, middle), (middle, end))]
    if any(first == last for first, last in halves):
        middle = start + (end - start) // 2
        halves = [(start, middle), (middle, end)]
    for half in halves:
        yield from _halve(line, half, fits)


def _find_cut(text: str) -> int:
    """Returns where to cut a text: an end better than another if it leaves a quarter each side."""
    middle, quarter = len(text) / 2, len(text) / 4
    for pattern in (_CLAUSE_END, _SPACE, _GRAPHEME):
        ends = [found.end() for found in pattern.finditer(text)]
        cut = min(ends, key=lambda end: abs(end - middle), default=0)
        if abs(cut - middle) <= quarter:
            return cut
    # One character with thousands of marks on it.
    return len(text) // 2


def _strip(line: str, span: Span) -> Span:
    """Returns a span without the space at its ends; an empty one where it holds nothing else."""
    start, end = span
    text = line[start:end].lstrip()
    start = end - len(text)
    return start, start + len(text.rstrip())


def join_parts(
    of_parts: Sequence[Sequence[Hypothesis]], target_language: str
) -> tuple[Hypothesis, ...]:
    """Returns a line's hypotheses: the k-th is made of each part's k-th, while every part has one.

    Args:
        of_parts: Each part's decoded hypotheses, in the order of their ranks; at least one part.
        target_language: Its code, which may name a script or country too: `zh`, `zh_Hans`, `pt-BR`.
    """
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    return tuple(_join(parts, target_language) for parts in zip(*of_parts, strict=False))


def join_texts(texts: Iterable[str], target_language: str) -> str:
    """Returns the translations of a line's parts as one line; empty ones are skipped."""
    return ("" if joins_without_space(target_language) else " ").join(filter(None, texts))


def joins_without_space(language: str) -> bool:
    """Returns whether a language puts no space between sentences."""
    return language.lower().replace("_", "-").split("-")[0] in _WITHOUT_SPACES


def _join(parts: Sequence[Hypothesis], target_language: str) -> Hypothesis:
    fused = [part.fused_log_probability for part in parts]
    gap = len(join_texts(["-", "-"], target_language)) - 2
    starts, end = [], 0
    for part in parts:
        starts.append(end)
        end += len(part.text) + gap if part.text else 0
    return Hypothesis(
        token_ids=tuple(chain.from_iterable(part.token_ids for part in parts)),
        log_probability=sum(part.log_probability for part in parts),
        score=sum(part.score for part in parts),
        is_finished=all(part.is_finished for part in parts),
        token_log_probabilities=tuple(
            chain.from_iterable(part.token_log_probabilities for part in parts)
        ),
        fused_log_probability=None if None in fused else sum(filter(None, fused)),
        text=join_texts([part.text for part in parts], target_language),
        pieces=tuple(chain.from_iterable(part.pieces for part in parts)),
        alignment=join_alignments(parts, starts),
    )
