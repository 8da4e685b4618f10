"""Splits lines into sentences (`inference.paragraphs`), and joins their translations.

Terms, protection, flags and alignments refer to a sentence. A sentence that is too long for the
model is cut into parts, as a line is.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import TypeVar

import regex

from mtkit.errors import MtkitError
from mtkit.inference.line import Line, TextModel
from mtkit.inference.request import LineError
from mtkit.inference.translation import (
    BLANK,
    Hypothesis,
    Protection,
    TermUse,
    TranslatedSentence,
    Translation,
    WordAlignment,
)
from mtkit.recipe.inference import Inference
from mtkit.text.sentences import find_gap, find_sentences
from mtkit.text.words import Span, strip_span

_CLOSERS = r"[\p{Pe}\p{Pf}\"'’”»]*+"
_CLAUSE_END = regex.compile(
    rf"(?: [,;:،؛·]{_CLOSERS} | \s[-–—] )\s+ | [、，；：]{_CLOSERS}\s*", regex.VERBOSE
)
_SPACE = regex.compile(r"\s+")
_GRAPHEME = regex.compile(r"\X")

_Item = TypeVar("_Item")
_Number = TypeVar("_Number", float, bool)
WAYS = ("plain", "masked", "constrained", "n_best")
"""Values of `Protection.way`, the simplest first."""


def cut_line(line: str, fits: Callable[[str], bool], language: str = "") -> list[Span]:
    """Returns the spans of a line's sentences, with too long ones cut into parts.

    A part ends after a clause, else between words, else between characters. Outside the parts there
    are only spaces. `fits` checks that a text is short enough; a single character is never cut.
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
    """Returns where to cut a text; a better kind of end wins if it leaves a quarter per side."""
    middle, quarter = len(text) / 2, len(text) / 4
    for pattern in (_CLAUSE_END, _SPACE, _GRAPHEME):
        ends = [found.end() for found in pattern.finditer(text)]
        cut = min(ends, key=lambda end: abs(end - middle), default=0)
        if abs(cut - middle) <= quarter:
            return cut
    # A single character with thousands of marks.
    return len(text) // 2


def choose_gaps(text: str, spans: Sequence[Span], target_language: str) -> list[str]:
    """Returns the text between translated sentences.

    It is the source's, unless that is empty or a single space: the target language decides then.
    """
    usual = find_gap(target_language)
    found = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    return [usual if gap in ("", " ") else gap for gap in found]


def join_parts(
    of_parts: Sequence[Sequence[Hypothesis]],
    target_language: str,
    gaps: Sequence[str] | None = None,
) -> tuple[Hypothesis, ...]:
    """Returns a line's candidates: the k-th joins each part's k-th, as long as every part has one.

    `gaps` follow each part but the last; by default those between the language's sentences.
    `target_language` may have a script or country: `zh`, `zh_Hans`, `pt-BR`.
    """
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    if gaps is None:
        gaps = [find_gap(target_language)] * (len(of_parts) - 1)
    return tuple(_join(parts, gaps) for parts in zip(*of_parts, strict=False))


def place_texts(texts: Sequence[str], gaps: Sequence[str]) -> tuple[str, list[int]]:
    """Joins the texts of a line's parts, skipping empty ones; also returns each part's start."""
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


def _join(parts: Sequence[Hypothesis], gaps: Sequence[str]) -> Hypothesis:
    fused = [part.fused_log_probability for part in parts]
    # A part that is copied has none.
    utilities = [part.utility for part in parts if part.utility is not None]
    model_scores = [part.model_scores for part in parts if part.model_scores]
    text, starts = place_texts([part.text for part in parts], gaps)
    return Hypothesis(
        token_ids=tuple(chain.from_iterable(part.token_ids for part in parts)),
        log_probability=sum(part.log_probability for part in parts),
        score=sum(part.score for part in parts),
        is_finished=all(part.is_finished for part in parts),
        token_log_probabilities=tuple(
            chain.from_iterable(part.token_log_probabilities for part in parts)
        ),
        fused_log_probability=None if None in fused else sum(filter(None, fused)),
        utility=fmean(utilities) if utilities else None,
        model_scores=tuple(map(fmean, zip(*model_scores, strict=True))),
        text=text,
        pieces=tuple(chain.from_iterable(part.pieces for part in parts)),
        alignment=join_alignments(parts, starts),
    )


def split_line(line: Line, model: TextModel) -> None:
    """Sets a line's sentences if it has several; a prefix, which fits only one, is an error."""
    try:
        source, _ = model.resolve(line.request)
    except MtkitError:
        # Reported where the line is encoded.
        return
    tags, rest = model.tokenizer.split_tags(line.text)
    found = [] if line.terms is None else line.terms.locate(rest)
    spans = split_sentences(rest, line.settings, source, found)
    if len(spans) < 2:
        return
    if line.request.prefix:
        raise LineError(
            line.number,
            f"{len(spans):,} sentences, but a prefix fits only one (inference.paragraphs)",
            "give each sentence a line of its own",
        )
    line.spans = [(len(tags) + start, len(tags) + end) for start, end in spans]
    for number, (start, end) in enumerate(line.spans):
        text = tags + line.text[start:end]
        request = replace(line.request, text=text, sentence=number)
        line.sentences.append(Line(request, text, line.number, line.settings, line.terms))


def join_line(line: Line, model: TextModel) -> Translation:
    """Returns the translation of a line that was split."""
    return join_sentences(
        line.text,
        line.spans,
        [each.translation for each in line.sentences if each.translation is not None],
        model.choose_target_language(line.request),
        num_before=len(model.tokenizer.split_tags(line.text)[0]),
    )


def split_sentences(
    text: str, settings: Inference, language: str, terms: Sequence[Span] = ()
) -> list[Span]:
    """Returns the spans of a text's sentences; none ends inside a term or a protected piece."""
    chosen = settings.paragraphs.language if settings.paragraphs is not None else ""
    kept = list(terms)
    if settings.protect is not None:
        # Imported here: its patterns load slowly.
        from mtkit.inference.protect import open_finder  # noqa: PLC0415

        kept += [piece.span for piece in open_finder(settings.protect).find(text).pieces]
    return find_sentences(text, chosen or language, kept)


def join_sentences(
    text: str,
    spans: Sequence[Span],
    found: Sequence[Translation],
    target_language: str,
    *,
    num_before: int = 0,
) -> Translation:
    """Returns a text's translation from those of its sentences.

    The k-th candidate joins each sentence's k-th, as long as every sentence has one. `num_before`
    counts the characters of tags before each sentence when it was translated.
    """
    if not spans:
        return BLANK
    if len(spans) == 1 and spans[0] == (0, len(text)):
        return found[0]
    gaps = choose_gaps(text, spans, target_language)
    shifts = [start - num_before for start, _ in spans]
    parts = [
        [_shift_alignment(candidate, by) for candidate in each.candidates]
        for each, by in zip(found, shifts, strict=True)
    ]
    _, starts = place_texts([each.text for each in found], gaps)
    warnings = chain.from_iterable(each.warnings for each in found)
    return Translation(
        join_parts(parts, target_language, gaps),
        was_split=any(each.was_split for each in found),
        warnings=tuple(dict.fromkeys(warnings)),
        flags=_chain([each.flags for each in found]),
        terms=_chain([_shift_terms(each, by) for each, by in zip(found, shifts, strict=True)]),
        protection=_join_protections([each.protection for each in found]),
        quality=find_lowest([each.quality for each in found]),
        released=find_lowest([each.released for each in found]),
        model=" + ".join(dict.fromkeys(each.model for each in found if each.model)) or None,
        sentences=()
        if len(spans) == 1
        else tuple(
            TranslatedSentence(
                source=span,
                target=(start, start + len(each.text)),
                score=each.candidates[0].score,
                log_probability=each.candidates[0].log_probability,
                reached_limit=each.reached_limit,
                was_split=each.was_split,
            )
            for span, start, each in zip(spans, starts, found, strict=True)
        ),
    )


def _shift_alignment(candidate: Hypothesis, by: int) -> Hypothesis:
    """Returns a sentence's candidate with source words relative to the text."""
    if candidate.alignment is None or not by:
        return candidate
    words = candidate.alignment.source_words
    shifted = tuple((start + by, end + by) for start, end in words)
    return replace(candidate, alignment=replace(candidate.alignment, source_words=shifted))


def _shift_terms(found: Translation, by: int) -> tuple[TermUse, ...] | None:
    if found.terms is None:
        return None
    return tuple(replace(term, span=(term.span[0] + by, term.span[1] + by)) for term in found.terms)


def _chain(found: Sequence[tuple[_Item, ...] | None]) -> tuple[_Item, ...] | None:
    """Returns the results of all sentences; None if none was checked."""
    looked = [each for each in found if each is not None]
    return tuple(chain.from_iterable(looked)) if looked else None


def find_lowest(found: Sequence[_Number | None]) -> _Number | None:
    """Returns the lowest of sentences' qualities; None if none has any."""
    return min((each for each in found if each is not None), default=None)


def _join_protections(found: Iterable[Protection | None]) -> Protection | None:
    known = [each for each in found if each is not None]
    if not known:
        return None
    ways = [each.way for each in known]
    return Protection(
        tuple(chain.from_iterable(each.pieces for each in known)),
        None if None in ways else max(ways, key=WAYS.index),
        tuple(dict.fromkeys(chain.from_iterable(each.lost for each in known))),
    )


def join_alignments(parts: Sequence[Hypothesis], starts: Sequence[int]) -> WordAlignment | None:
    """Returns the alignment of a line from those of its parts, given their target starts."""
    sources: list[Span] = []
    targets: list[Span] = []
    pairs: list[tuple[int, int]] = []
    for part, start in zip(parts, starts, strict=True):
        if part.alignment is None:
            return None
        found = part.alignment
        pairs += [(len(sources) + first, len(targets) + last) for first, last in found.pairs]
        sources += found.source_words
        targets += [(begin + start, end + start) for begin, end in found.target_words]
    is_too_long = any(each.alignment is not None and each.alignment.is_too_long for each in parts)
    return WordAlignment(tuple(sources), tuple(targets), tuple(pairs), is_too_long)
