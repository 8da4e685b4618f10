"""Lines of several sentences (`inference.paragraphs`): each translated, and joined as they stood.

Whatever else is asked for, terms, protection, flags and alignments, is of a sentence. A sentence
that is too long for the model is cut by segment.py, as a line is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from mtkit.errors import MtkitError
from mtkit.inference.protect import ProtectingTranslator, open_finder
from mtkit.inference.request_terms import RequestTerms
from mtkit.inference.segment import choose_gaps, join_parts, place_texts
from mtkit.inference.translation import (
    BLANK,
    FinishTranslations,
    Hypothesis,
    LineError,
    Protection,
    Request,
    TermUse,
    TranslatedSentence,
    Translation,
)
from mtkit.recipe.inference import Inference
from mtkit.recipe.protection import Protect
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.sentences import find_sentences
from mtkit.text.words import Span

_Item = TypeVar("_Item")
_WAYS = ("plain", "masked", "n_best")
"""Ways of a `Protection`, the plainest first."""


class ParagraphTranslator:
    """Translates lines as another does, those of several sentences sentence by sentence.

    Args:
        lines: What translates and scores.
        split_tags: Returns the tags before a line, which hold for each of its sentences, and what
            is behind them.
        target_language: The language that the model writes, where a request names none.
        terms: Chooses a line's terms, inside which no sentence ends.
        can_split: Whether outputs are translations, not trees or a text that goes on.

    Raises:
        MtkitError: They aren't, and the settings have `paragraphs`.
    """

    def __init__(
        self,
        lines: ProtectingTranslator,
        split_tags: Callable[[str], tuple[str, str]],
        *,
        target_language: str = "",
        terms: RequestTerms | None = None,
        can_split: bool = True,
    ) -> None:
        self._lines, self._split_tags, self._terms = lines, split_tags, terms
        self._target_language, self._can_split = target_language, can_split
        self.settings = lines.settings
        self._check(self.settings)

    def _check(self, settings: Inference) -> None:
        if settings.paragraphs is not None and not self._can_split:
            raise MtkitError(
                "inference.paragraphs is for translators, which this model isn't",
                "remove it: --set ~inference.paragraphs",
            )

    @property
    def languages(self) -> TranslatorLanguages:
        """What it reads and writes."""
        return self._lines.languages

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned."""
        return self._lines.aligns

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations with their scores, each pair as one sentence."""
        return self._lines.score(requests, first_line=first_line)

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Returns what makes translations of what the search has found.

        Raises:
            MtkitError: As `LineTranslator.search_ahead`; a line of several sentences has a prefix.
        """
        if not any(map(self._may_split, requests)):
            return self._lines.search_ahead(requests, first_line=first_line)
        numbered = [
            request if request.line is not None else replace(request, line=first_line + index)
            for index, request in enumerate(requests)
        ]
        spans = [self._find_sentences(request) for request in numbered]
        sentences = chain.from_iterable(map(self._list_sentences, numbered, spans))
        finish = self._lines.search_ahead(list(sentences), first_line=first_line)

        def finish_lines() -> list[Translation]:
            found = iter(finish())
            return [
                self._join(request, of_line, [next(found) for _ in of_line or (None,)])
                for request, of_line in zip(numbered, spans, strict=True)
            ]

        return finish_lines

    def _may_split(self, request: Request) -> bool:
        settings = request.settings or self.settings
        return settings.paragraphs is not None and request.sentence is None

    def _find_sentences(self, request: Request) -> list[Span]:
        """Returns where a line's sentences are; none where there is one, or it isn't to be split.

        Raises:
            LineError: There are several, and a prefix that one of them would begin with.
        """
        settings = request.settings or self.settings
        if settings.paragraphs is None or not self._may_split(request):
            return []
        self._check(settings)
        try:
            source, _ = self.languages.resolve(request.source_language, request.target_language)
        except MtkitError:
            # Told where the line is encoded.
            return []
        text = request.text.rstrip("\r\n")
        tags, rest = self._split_tags(text)
        of_line = None if self._terms is None else self._terms.find(request)
        terms = [] if of_line is None else of_line.locate(rest)
        found = find_sentences(
            rest,
            settings.paragraphs.language or source,
            [*terms, *find_protected(rest, settings.protect)],
        )
        if len(found) < 2:
            return []
        if request.prefix:
            assert request.line is not None
            raise LineError(
                request.line,
                f"{len(found):,} sentences, and a prefix, which only one could begin with "
                "(inference.paragraphs)",
                "give each sentence a line of its own",
            )
        return [(len(tags) + start, len(tags) + end) for start, end in found]

    def _list_sentences(self, request: Request, spans: Sequence[Span]) -> Iterator[Request]:
        if not spans:
            yield request
            return
        tags, _ = self._split_tags(request.text)
        for number, (start, end) in enumerate(spans):
            yield replace(request, text=tags + request.text[start:end], sentence=number)

    def _join(
        self, request: Request, spans: Sequence[Span], found: Sequence[Translation]
    ) -> Translation:
        if not spans:
            return found[0]
        tags, _ = self._split_tags(request.text)
        _, target = self.languages.resolve(request.source_language, request.target_language)
        target = target or self._target_language
        return join_sentences(request.text, spans, found, target, num_before=len(tags))


def find_protected(text: str, settings: Protect | None) -> list[Span]:
    """Returns the stretches of a text that must stay, inside which no sentence ends."""
    if settings is None:
        return []
    return [piece.span for piece in open_finder(settings).find(text).pieces]


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
