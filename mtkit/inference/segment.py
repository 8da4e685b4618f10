"""Cuts a line that is too long into sentences or smaller parts, and joins their translations."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import regex

from mtkit.inference.translation import Candidate, join_alignments
from mtkit.text.sentences import find_sentences
from mtkit.text.words import Span, strip_span

_CLOSERS = r"[\p{Pe}\p{Pf}\"'’”»]*+"
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


def cut_line(line: str, fits: Callable[[str], bool], language: str = "") -> list[Span]:
    """Returns where a line's sentences are, and parts of those that are too long themselves.

    A part ends where a clause does, or between words, or between characters where there is nothing
    better, and begins behind the space before it. Between parts, before the first and behind the
    last there is nothing but such spaces.

    Args:
        line: Text without a newline.
        fits: Whether a text is short enough. Text of a single character is taken as it is.
        language: Code of its language.
    """
    sentences = find_sentences(line, language)
    return [part for sentence in sentences for part in _halve(line, sentence, fits)]


def _halve(line: str, span: Span, fits: Callable[[str], bool]) -> Iterator[Span]:
    start, end = span
    if end - start <= 1 or fits(line[start:end]):
        yield span
        return
    middle = start + _find_cut(line[start:end])
    halves = [strip_span(line, half) for half in ((start, middle), (middle, end))]
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


def choose_gaps(text: str, spans: Sequence[Span], target_language: str) -> list[str]:
    """Returns what stands between the translations of a text's sentences.

    It is what stands between the sentences. Only where that is nothing or a single space, it is
    what the target language has there.

    Args:
        text: The text.
        spans: Its sentences.
        target_language: Code of the language that they are translated into.
    """
    usual = "" if joins_without_space(target_language) else " "
    found = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    return [usual if gap in ("", " ") else gap for gap in found]


def join_parts(
    of_parts: Sequence[Sequence[Candidate]],
    target_language: str,
    gaps: Sequence[str] | None = None,
) -> tuple[Candidate, ...]:
    """Returns a line's candidates: the k-th is made of each part's k-th, while every part has one.

    Args:
        of_parts: Each part's candidates, in the order of their ranks; at least one part.
        target_language: Its code, which may name a script or country too: `zh`, `zh_Hans`, `pt-BR`.
        gaps: What stands behind each part but the last; by default what the language has between
            sentences.
    """
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    if gaps is None:
        gaps = ["" if joins_without_space(target_language) else " "] * (len(of_parts) - 1)
    return tuple(_join(parts, gaps) for parts in zip(*of_parts, strict=False))


def place_texts(texts: Sequence[str], gaps: Sequence[str]) -> tuple[str, list[int]]:
    """Returns the texts of a line's parts as one, and where each begins; empty ones are skipped.

    Args:
        texts: The parts' translations.
        gaps: What stands behind each but the last.
    """
    starts: list[int] = []
    pieces: list[str] = []
    length = 0
    for index, text in enumerate(texts):
        if text and pieces:
            pieces.append(gaps[index - 1])
            length += len(pieces[-1])
        starts.append(length)
        if text:
            pieces.append(text)
            length += len(text)
    return "".join(pieces), starts


def joins_without_space(language: str) -> bool:
    """Returns whether a language puts no space between sentences."""
    return language.lower().replace("_", "-").split("-")[0] in _WITHOUT_SPACES


def _join(parts: Sequence[Candidate], gaps: Sequence[str]) -> Candidate:
    fused = [part.fused_log_probability for part in parts]
    text, starts = place_texts([part.text for part in parts], gaps)
    return Candidate(
        token_ids=tuple(chain.from_iterable(part.token_ids for part in parts)),
        log_probability=sum(part.log_probability for part in parts),
        score=sum(part.score for part in parts),
        is_finished=all(part.is_finished for part in parts),
        token_log_probabilities=tuple(
            chain.from_iterable(part.token_log_probabilities for part in parts)
        ),
        fused_log_probability=None if None in fused else sum(filter(None, fused)),
        text=text,
        pieces=tuple(chain.from_iterable(part.pieces for part in parts)),
        alignment=join_alignments(parts, starts),
    )
