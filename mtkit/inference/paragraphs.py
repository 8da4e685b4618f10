"""Lines of several sentences (`inference.paragraphs`): each translated, and joined as they stood.

Whatever else is asked for, terms, protection, flags and alignments, is of a sentence. A sentence
that is too long for the model is cut in parts, as a line is.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import regex

from mtkit.errors import MtkitError
from mtkit.inference.line import Line, TextModel
from mtkit.inference.protect import open_finder
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
_Item = TypeVar("_Item")
_WAYS = ("plain", "masked", "n_best")
"""Ways of a `Protection`, the plainest first."""


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
    of_parts: Sequence[Sequence[Hypothesis]],
    target_language: str,
    gaps: Sequence[str] | None = None,
) -> tuple[Hypothesis, ...]:
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


def _join(parts: Sequence[Hypothesis], gaps: Sequence[str]) -> Hypothesis:
    fused = [part.fused_log_probability for part in parts]
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
        text=text,
        pieces=tuple(chain.from_iterable(part.pieces for part in parts)),
        alignment=join_alignments(parts, starts),
    )


def split_line(line: Line, model: TextModel) -> None:
    """Fills in a line's sentences, where it has several; none ends inside one of its terms.

    Raises:
        LineError: It has a prefix that one of them would begin with.
    """
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
            f"{len(spans):,} sentences, and a prefix, which only one could begin with "
            "(inference.paragraphs)",
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
    """Returns where the sentences of a text are; none ends inside a term or what is protected.

    Args:
        text: The text.
        settings: They say what is protected, and perhaps by which language's rules sentences end.
        language: Code of the text's language.
        terms: Where the text's terms stand.
    """
    chosen = settings.paragraphs.language if settings.paragraphs is not None else ""
    kept = list(terms)
    if settings.protect is not None:
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
    """Returns the translation of a text, made of its sentences'.

    The k-th candidate is made of each sentence's k-th, while every sentence has one.

    Args:
        text: The text.
        spans: Where its sentences are.
        found: The sentences' translations.
        target_language: Code of the language that they are translated into.
        num_before: Characters of tags before each sentence, where it was translated.
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
    """Returns a sentence's candidate with the source's words where they are in the text."""
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
    """Returns what was found of all sentences; None where it wasn't looked for."""
    looked = [each for each in found if each is not None]
    return tuple(chain.from_iterable(looked)) if looked else None


def _join_protections(found: Iterable[Protection | None]) -> Protection | None:
    known = [each for each in found if each is not None]
    if not known:
        return None
    ways = [each.way for each in known]
    return Protection(
        tuple(chain.from_iterable(each.pieces for each in known)),
        None if None in ways else max(ways, key=_WAYS.index),
        tuple(dict.fromkeys(chain.from_iterable(each.lost for each in known))),
    )


def join_alignments(parts: Sequence[Hypothesis], starts: Sequence[int]) -> WordAlignment | None:
    """Returns the alignment of a line whose parts were translated, each with its own.

    Args:
        parts: The parts' candidates; their source words stand in the line already.
        starts: Where each part's text begins in the joined text.
    """
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
