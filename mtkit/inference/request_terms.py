"""Terms of lines: those of a request, or of the translator's glossary."""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import chain

from mtkit.errors import MtkitError
from mtkit.inference.line import Line, TextModel, list_parts
from mtkit.inference.request import LineError, Request
from mtkit.inference.terms import GlossaryTerms, Way, choose_way, replace_text
from mtkit.recipe.inference import Glossary as GlossarySettings
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import Glossary, Term

_OPENED = 8
"""Glossaries of requests that are kept open: a request's lines may come in several batches."""


class TermStep:
    """Chooses the terms of lines, writes them where the model reads them, and reports on them.

    It may be shared by threads.

    Args:
        settings: Those with the glossary.
        model: What is known of the model.

    Raises:
        MtkitError: The glossary can't be read; the model doesn't know annotations.
    """

    def __init__(self, settings: Inference, model: TextModel) -> None:
        self._tokenizer, self._translates = model.tokenizer, model.translates
        self._settings = settings.glossary or GlossarySettings()
        self._default: GlossaryTerms | None = None
        if self._settings.way != "auto":
            # Faults are reported before there are terms.
            choose_way(self._settings, self._tokenizer)
        if self._settings.path is not None:
            self._default = GlossaryTerms.open(self._settings.path, self._tokenizer, self._way)
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

    def choose(self, lines: Sequence[Line], *, can_constrain: bool) -> None:
        """Fills in each line's terms.

        Args:
            lines: The lines.
            can_constrain: Whether outputs can be made to contain terms.

        Raises:
            MtkitError: A request has a glossary that this model or engine can't keep to.
        """
        for line in lines:
            line.terms = terms = self.find(line.request)
            if not line.request.glossary or terms is None:
                continue
            if not self._translates:
                raise MtkitError("glossary: only translators take one", "leave it out")
            if terms.constrains and not can_constrain:
                raise LineError(
                    line.number,
                    "glossary: CTranslate2 can't search for outputs that contain given terms",
                    'leave it out, or use engine = "torch" with the original model',
                )
            if terms.constrains and line.settings.sampling is not None:
                raise LineError(
                    line.number, "glossary: terms need a beam, and inference.sampling has none"
                )

    def annotate(self, lines: Sequence[Line], limit: Callable[[Line], int]) -> None:
        """Fills in each part's terms, and its tokens with their translations where these are read.

        Args:
            lines: The lines.
            limit: Returns the max tokens of a line's parts; one that would be longer stays.
        """
        annotated = []
        for line, part in list_parts(lines):
            if line.terms is not None:
                text = line.text[slice(*part.source.span)]
                part.terms = line.terms.find(text)
                if part.terms is not None and line.terms.annotates:
                    annotated.append((line, part, [text, part.terms.annotate(text)]))
        texts = list(chain.from_iterable(pair for *_, pair in annotated))
        tokens = self._tokenizer.encode_source(texts)
        for (line, part, _), plain, read in zip(annotated, tokens[::2], tokens[1::2], strict=True):
            searched = replace_text(part.source, len(plain), read)
            if len(searched.tokens) <= limit(line):
                part.searched = searched

    def report(self, lines: Sequence[Line]) -> None:
        """Adds what became of their terms to lines' translations."""
        for line in lines:
            terms = self.find(line.request)
            if terms is not None and line.translation is not None:
                line.translation = terms.report(line.request.text, line.translation)

    def summarize(self) -> str:
        """Returns in words what became of the translator's own terms; empty without any."""
        return "" if self._default is None else self._default.summarize()
