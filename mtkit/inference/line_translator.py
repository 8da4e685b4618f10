"""Lines to translations, step by step: segment, encode, search, rerank, join."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from mtkit.inference.align import UNALIGNED, LineAligner
from mtkit.inference.copied_lines import copy_line, is_copied
from mtkit.inference.encode import ContinuationEncoder, LineEncoder, SourceEncoder, limit_given
from mtkit.inference.engines.engine import ConstrainingEngine, Engine
from mtkit.inference.learned_aligner import LearnedAligner, warn_too_long
from mtkit.inference.outputs import OutputDecoder, cut_warning
from mtkit.inference.parse import SentenceParser, TreeMaker
from mtkit.inference.request_terms import RequestTerms
from mtkit.inference.required_phrases import require_phrases
from mtkit.inference.score_lines import LineScorer
from mtkit.inference.search_parts import EncodedLine, PartSearch, Reranker, keep_order
from mtkit.inference.segment import join_parts
from mtkit.inference.terms import GlossaryTerms
from mtkit.inference.translation import (
    BLANK,
    FinishTranslations,
    Hypothesis,
    LineWarning,
    Request,
    Translation,
)
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer

if TYPE_CHECKING:
    from mtkit.inference.flag_lines import LineFlagger

_ENGINE_KEYS = (
    "engine",
    "precision",
    "processes",
    "batch_tokens",
    "fusion",
    "glossary",
)
"""Settings that a request can't change."""


class LineTranslator:
    """Translates and scores lines with an engine; prints nothing, and may be shared by threads.

    Args:
        engine: The engine, with its model.
        tokenizer: The model's.
        settings: How to search where a request doesn't say.
        source_language: The language that it reads, as the model's config has it.
        target_language: The language that it writes, which says how parts of a long line are
            joined.
        languages: What it reads and writes; by default what the tokenizer and these two say.
        rerank: Orders each part's hypotheses before parts are joined.
        continues: Whether lines are continued, as by a causal language model, not translated.
        trees: Makes trees of a parser's output; None for text.
        terms: Chooses each line's terms; None where no line has any.
        words: Aligns words in place of the network's attention; None where nothing was learned.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        *,
        source_language: str = "",
        target_language: str = "",
        languages: TranslatorLanguages | None = None,
        rerank: Reranker = keep_order,
        continues: bool = False,
        trees: TreeMaker | None = None,
        terms: RequestTerms | None = None,
        words: LearnedAligner | None = None,
    ) -> None:
        self._engine, self._tokenizer, self.settings = engine, tokenizer, settings
        self._target_language, self._continues = target_language, continues
        self._terms = terms
        self.languages = languages or TranslatorLanguages.of(
            tokenizer.languages, source_language, target_language
        )
        self._parser = None if trees is None else SentenceParser(trees, engine, tokenizer)
        decoder = OutputDecoder(tokenizer)
        self._part_search = PartSearch(
            engine, decoder, rerank=rerank, continues=continues, needs_attention=words is None
        )
        self._scorer = LineScorer(
            engine,
            tokenizer,
            settings,
            languages=self.languages,
            decoder=decoder,
            parser=self._parser,
            continues=continues,
        )
        self._writes_translations = trees is None and not continues
        self._aligner = LineAligner(
            engine, tokenizer, can_align=self._writes_translations, words=words
        )
        self._check_asked([settings])

    @cached_property
    def _flagger(self) -> "LineFlagger":
        # Imported here: what looks at text takes a while to load, and most never ask for it.
        from mtkit.inference.flag_lines import LineFlagger  # noqa: PLC0415

        return LineFlagger(
            self.languages, self._tokenizer.split_tags, can_flag=self._writes_translations
        )

    @property
    def constrains(self) -> bool:
        """Whether outputs can be made to contain phrases, `Request.required`."""
        return isinstance(self._engine, ConstrainingEngine) and self._engine.constrains

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned."""
        return self._aligner.can_align

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Returns what makes translations of what the search has found.

        Lines with equal settings are searched together.

        Args:
            requests: The lines.
            first_line: Number of the first of them.

        Raises:
            MtkitError: As `Translator.search`.
        """
        # Requests share settings, and it takes time to copy them.
        chosen = {id(each.settings): self._choose_settings(each) for each in self._unlike(requests)}
        settings = [chosen[id(request.settings)] for request in requests]
        self._check_asked(list(chosen.values()))
        if self._parser is not None:
            requests = [
                replace(request, text=self._parser.spell(request.text)) for request in requests
            ]
        numbers = [
            first_line + index if request.line is None else request.line
            for index, request in enumerate(requests)
        ]
        lines, warnings = self._encode(requests, numbers, settings)
        ranked = self._part_search.search(lines)
        aligned = [index for index, line in enumerate(lines) if line.settings.alignments]
        found = [
            (lines[index].text, part, each)
            for index in aligned
            for part, hypotheses in zip(lines[index].parts, ranked[index], strict=True)
            for each in hypotheses
        ]
        found = self._aligner.read_attention(found, self.settings.batch_tokens)

        def finish() -> list[Translation]:
            linked = iter(self._aligner.link_words(found))
            for index in aligned:
                ranked[index] = [[next(linked) for _ in part] for part in ranked[index]]
            translations = [
                self._join(request, line, ranked[index], warnings.get(index))
                for index, (request, line) in enumerate(zip(requests, lines, strict=True))
            ]
            return [
                self._flag(request, translation, each.flags)
                for request, translation, each in zip(requests, translations, settings, strict=True)
            ]

        return finish

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations, the requests' prefixes, as `Translator.score` does."""
        indices = [
            index
            for index, request in enumerate(requests)
            if request.text.strip() or request.prefix.strip()
        ]
        given = [requests[index] for index in indices]
        scored = self._scorer.score(given, [first_line + index for index in indices])
        blank, candidates = BLANK, [each.candidate for each in scored]
        if self.settings.alignments:
            blank = replace(BLANK, candidates=UNALIGNED)
            rows = [
                (request.text.rstrip("\r\n"), each.source, each.candidate)
                for request, each in zip(given, scored, strict=True)
            ]
            candidates = self._aligner.align_given(rows, self.settings.batch_tokens)
        translations = [blank] * len(requests)
        for index, candidate in zip(indices, candidates, strict=True):
            warnings = warn_too_long(candidate.alignment, first_line + index)
            translations[index] = Translation((candidate,), warnings=tuple(warnings))
        return [
            self._flag(request, translation, self.settings.flags)
            for request, translation in zip(requests, translations, strict=True)
        ]

    @staticmethod
    def _unlike(requests: Sequence[Request]) -> Iterable[Request]:
        """Returns a request for each settings object among requests'."""
        return {id(request.settings): request for request in requests}.values()

    def _choose_settings(self, request: Request) -> Inference:
        if request.settings is None:
            return self.settings
        kept = {key: getattr(self.settings, key) for key in _ENGINE_KEYS}
        return request.settings.model_copy(update=kept)

    def _check_asked(self, settings: Sequence[Inference]) -> None:
        """Checks that the model can do what is asked beside translations."""
        if any(each.alignments for each in settings):
            self._aligner.check()
        for flags in {each.flags for each in settings if each.flags is not None}:
            self._flagger.check(flags)

    def _encode(
        self, requests: Sequence[Request], numbers: Sequence[int], settings: Sequence[Inference]
    ) -> tuple[list[EncodedLine], dict[int, LineWarning]]:
        """Returns lines in tokens, and warnings of those that were cut, by their positions."""
        max_tokens = self._engine.max_tokens or sys.maxsize
        limits = [
            # A sentence's tree can't be made of the trees of its parts.
            max_tokens if self._parser is not None else min(each.max_source_tokens, max_tokens)
            for each in settings
        ]
        encoded, warnings = self._encoder.encode(requests, numbers, limits)
        encoded = [
            require_phrases(parts, request.required) if request.required else parts
            for parts, request in zip(encoded, requests, strict=True)
        ]
        texts = [request.text for request in requests]
        terms = self._choose_terms(requests, numbers, settings)
        for index, request in enumerate(requests):
            if self._is_copied(request, terms[index]):
                encoded[index] = []
                warnings.pop(index, None)
        return list(map(EncodedLine, texts, encoded, numbers, limits, settings, terms)), warnings

    def _is_copied(self, request: Request, terms: GlossaryTerms | None) -> bool:
        """Returns whether a line's translation is a copy of the line."""
        if not self._writes_translations or request.prefix or request.required:
            return False
        _, rest = self._tokenizer.split_tags(request.text.rstrip("\r\n"))
        return is_copied(rest) and not (terms is not None and terms.locate(rest))

    def _choose_terms(
        self, requests: Sequence[Request], numbers: Sequence[int], settings: Sequence[Inference]
    ) -> list[GlossaryTerms | None]:
        if self._terms is None:
            return [None] * len(requests)
        return self._terms.choose(requests, numbers, settings, can_constrain=self.constrains)

    @property
    def _encoder(self) -> LineEncoder:
        max_given_tokens = limit_given(self._engine)
        if self._continues:
            return ContinuationEncoder(self._tokenizer, max_given_tokens)
        cuts = self._parser is None
        return SourceEncoder(self._tokenizer, max_given_tokens, self.languages, cuts=cuts)

    def _join(
        self,
        request: Request,
        line: EncodedLine,
        ranked: list[list[Hypothesis]],
        warning: LineWarning | None,
    ) -> Translation:
        """Returns a line's translation, joined of its parts'."""
        if not line.parts:
            return self._answer_without_search(line, warning)
        candidates = join_parts(ranked, self._choose_joining(request))
        if self._parser is not None:
            candidates = self._parser.make_trees(line.text, candidates, line.parts[0])
        warnings = [] if warning is None else [warning]
        warnings += [cut_warning(line.number)] if candidates[0].reached_limit else []
        warnings += warn_too_long(candidates[0].alignment, line.number)
        return Translation(candidates, was_split=len(line.parts) > 1, warnings=tuple(warnings))

    def _answer_without_search(self, line: EncodedLine, warning: LineWarning | None) -> Translation:
        """Returns the answer to a line that isn't searched.

        It has no tokens, its translation is a copy, or it is too long for a parser.
        """
        tags, rest = self._tokenizer.split_tags(line.text.rstrip("\r\n"))
        if self._writes_translations and is_copied(rest):
            return copy_line(rest, num_before=len(tags), alignments=line.settings.alignments)
        if line.settings.alignments:
            return replace(BLANK, candidates=UNALIGNED)
        if self._parser is None or not line.text.strip():
            return BLANK
        candidates = self._parser.make_trees(line.text, BLANK.candidates)
        return Translation(candidates, warnings=() if warning is None else (warning,))

    def _choose_joining(self, request: Request) -> str:
        """Returns the language by whose rules the parts of a line's translation are joined."""
        _, target = self.languages.resolve(request.source_language, request.target_language)
        return target or self._target_language

    def _flag(
        self, request: Request, translation: Translation, settings: Flags | None
    ) -> Translation:
        """Returns a translation with its flags, where they are asked for."""
        return (
            translation if settings is None else self._flagger.flag(request, translation, settings)
        )
