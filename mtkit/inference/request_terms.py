"""Which terms a line has: those of its request, or the translator's glossary."""

from collections.abc import Sequence
from functools import cached_property, lru_cache

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.terms import GlossaryTerms, Way, choose_way
from mtkit.inference.translation import Hypothesis, LineError, Request, Translation
from mtkit.recipe.inference import Glossary as GlossarySettings
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import Glossary, Term
from mtkit.text.tokenizer import SubwordTokenizer

_OPENED = 8
"""Glossaries of requests that are kept open: a request's lines may come in several batches."""


class RequestTerms:
    """Chooses the terms of lines. It may be shared by threads.

    Args:
        settings: Of the glossary.
        tokenizer: The model's.
        can_have_terms: Whether the model is a translator.

    Raises:
        MtkitError: The glossary can't be read; the model doesn't know annotations.
    """

    def __init__(
        self, settings: GlossarySettings, tokenizer: SubwordTokenizer, *, can_have_terms: bool
    ) -> None:
        self._tokenizer, self._settings = tokenizer, settings
        self._default: GlossaryTerms | None = None
        if settings.way != "auto":
            # Faults are told before there are terms.
            choose_way(settings, tokenizer)
        if settings.path is not None:
            self._default = GlossaryTerms.open(settings.path, tokenizer, self._way)
        self._can_have_terms = can_have_terms
        self._open = lru_cache(maxsize=_OPENED)(self._open_glossary)

    @cached_property
    def _way(self) -> Way:
        # The vocabulary is read for it, which most never need.
        return choose_way(self._settings, self._tokenizer)

    def _open_glossary(self, terms: tuple[Term, ...]) -> GlossaryTerms:
        return GlossaryTerms(Glossary(terms), self._tokenizer, self._way)

    def find(self, request: Request) -> GlossaryTerms | None:
        """Returns the terms of a line, whether or not they can be kept to."""
        return self._open(request.glossary) if request.glossary else self._default

    def choose(
        self,
        requests: Sequence[Request],
        lines: Sequence[int],
        settings: Sequence[Inference],
        *,
        can_constrain: bool,
    ) -> list[GlossaryTerms | None]:
        """Returns each line's terms; None where it has no glossary.

        Args:
            requests: The lines.
            lines: Their numbers.
            settings: Search settings of each.
            can_constrain: Whether outputs can be made to contain terms.

        Raises:
            MtkitError: A request has a glossary that this model or engine can't keep to.
        """
        chosen = [self.find(request) for request in requests]
        for request, line, each, terms in zip(requests, lines, settings, chosen, strict=True):
            if not request.glossary or terms is None:
                continue
            if not self._can_have_terms:
                raise MtkitError("glossary: only translators take one", "leave it out")
            if terms.constrains and not can_constrain:
                raise LineError(
                    line,
                    "glossary: CTranslate2 can't search for outputs that contain given terms",
                    'leave it out, or use engine = "torch" with the original model',
                )
            if terms.constrains and each.sampling is not None:
                raise LineError(
                    line, "glossary: terms need a beam, and inference.sampling has none"
                )
        return chosen

    def report(
        self, requests: Sequence[Request], translations: Sequence[Translation]
    ) -> list[Translation]:
        """Returns translations with what became of their lines' terms."""
        told = list(translations)
        for index, request in enumerate(requests):
            terms = self.find(request)
            if terms is not None:
                (told[index],) = terms.report([request], [told[index]])
        return told

    def summarize(self) -> str:
        """Returns in words what became of the translator's own terms."""
        return "" if self._default is None else self._default.summarize()


def annotate_lines(
    terms: Sequence[GlossaryTerms | None],
    texts: Sequence[str],
    encoded: Sequence[list[EncodedSource]],
    limits: Sequence[int],
) -> list[list[EncodedSource]]:
    """Returns lines' parts as `GlossaryTerms.annotate` does, each by its own terms."""
    given = list(encoded)
    for index, of_line in enumerate(terms):
        if of_line is not None:
            (given[index],) = of_line.annotate([texts[index]], [encoded[index]], [limits[index]])
    return given


def find_lacking(
    terms: Sequence[GlossaryTerms | None],
    texts: Sequence[str],
    encoded: Sequence[Sequence[EncodedSource]],
    ranked: Sequence[Sequence[Sequence[Hypothesis]]],
) -> dict[tuple[int, int], EncodedSource]:
    """Returns parts whose translations lack terms, with what their outputs must contain.

    Args:
        terms: Each line's.
        texts: The lines.
        encoded: Their parts, as they were searched.
        ranked: The hypotheses of each part.

    Returns:
        By the line's index and the part's.
    """
    lacking: dict[tuple[int, int], EncodedSource] = {}
    for line, of_line in enumerate(terms):
        if of_line is None or not of_line.constrains:
            continue
        for _, number, found in of_line.find_in_parts([texts[line]], [encoded[line]]):
            part = of_line.require(encoded[line][number], found, ranked[line][number])
            if part is not None:
                lacking[line, number] = part
    return lacking
