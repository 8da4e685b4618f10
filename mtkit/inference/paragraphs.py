"""Lines of several sentences (`inference.paragraphs`): each translated, and joined as they stood.

Whatever else is asked for, terms, protection, flags and alignments, is of a sentence. A sentence
that is too long for the model is cut by segment.py, as a line is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from mtkit.errors import MtkitError
from mtkit.inference.line import Line, TextModel
from mtkit.inference.protect import open_finder
from mtkit.inference.request import LineError
from mtkit.inference.request_terms import TermStep
from mtkit.inference.segment import choose_gaps, join_parts, place_texts
from mtkit.inference.translation import (
    BLANK,
    Candidate,
    Protection,
    TermUse,
    TranslatedSentence,
    Translation,
)
from mtkit.recipe.inference import Inference
from mtkit.text.sentences import find_sentences
from mtkit.text.words import Span

_Item = TypeVar("_Item")
_WAYS = ("plain", "masked", "n_best")
"""Ways of a `Protection`, the plainest first."""


class SentenceStep:
    """Splits lines of several sentences, and joins the sentences' translations.

    Args:
        model: What is known of the model.
        terms: Finds a line's terms, inside which no sentence ends.
    """

    def __init__(self, model: TextModel, terms: TermStep) -> None:
        self._model, self._terms = model, terms

    def check(self, settings: Inference) -> None:
        """Checks that lines can be split where settings say so.

        Raises:
            MtkitError: Outputs are trees, or a text that goes on.
        """
        if settings.paragraphs is not None and not self._model.translates:
            raise MtkitError(
                "inference.paragraphs is for translators, which this model isn't",
                "remove it: --set ~inference.paragraphs",
            )

    def split(self, lines: Sequence[Line]) -> list[Line]:
        """Fills in lines' sentences, and returns these, or a line where it is one.

        Raises:
            LineError: A line of several sentences has a prefix that one of them would begin with.
        """
        for line in lines:
            if line.settings.paragraphs is not None and line.request.sentence is None:
                self._split(line)
        return [each for line in lines for each in line.sentences or [line]]

    def join(self, lines: Sequence[Line]) -> None:
        """Fills in the translations of lines that were split."""
        for line in lines:
            if line.sentences:
                _, target = self._model.resolve(line.request)
                line.translation = join_sentences(
                    line.text,
                    line.spans,
                    [each.translation for each in line.sentences if each.translation is not None],
                    target or self._model.target_language,
                    num_before=len(self._split_tags(line)[0]),
                )

    def _split(self, line: Line) -> None:
        try:
            source, _ = self._model.resolve(line.request)
        except MtkitError:
            # Reported where the line is encoded.
            return
        tags, rest = self._split_tags(line)
        terms = self._terms.find(line.request)
        found = [] if terms is None else terms.locate(rest)
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
            line.sentences.append(Line(request, text, line.number, line.settings))

    def _split_tags(self, line: Line) -> tuple[str, str]:
        return self._model.tokenizer.split_tags(line.text)


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


def _shift_alignment(candidate: Candidate, by: int) -> Candidate:
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
