"""Lines to translations, step by step: segment, encode, search, rerank, join."""

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from mtkit.errors import MtkitError
from mtkit.inference.align import UNALIGNED, LineAligner
from mtkit.inference.batching import make_batches, search_in_batches
from mtkit.inference.encode import ContinuationEncoder, LineEncoder, SourceEncoder, mark_request
from mtkit.inference.engines.engine import AttendingEngine, EncodedSource, Engine
from mtkit.inference.parse import OutputAttention, TreeMaker
from mtkit.inference.search.penalties import end_output
from mtkit.inference.segment import join_parts
from mtkit.inference.terms import GlossaryTerms
from mtkit.inference.translation import (
    BLANK,
    Hypothesis,
    LineError,
    LineWarning,
    Request,
    Translation,
)
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS, TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.trees.brackets import split_words, write_tree

if TYPE_CHECKING:
    from mtkit.inference.flag_lines import LineFlagger

_MAX_GIVEN_TOKENS = 4_096
"""Max tokens of a given text, which can't be cut, if the model itself has no limit: memory grows
with the square of the length."""
_ENGINE_KEYS = (
    "engine",
    "precision",
    "processes",
    "batch_tokens",
    "fusion",
    "shortlist",
    "glossary",
)
"""Settings that a request can't change."""
CUT = "cut at the length limit"
"""The kind of the warning that a translation was cut."""
Reranker = Callable[[EncodedSource, list[Hypothesis]], list[Hypothesis]]
"""Reorders the decoded hypotheses of a part, best first.

The first of the returned hypotheses is the translation. It may drop some, but not all.
"""


def keep_order(_: EncodedSource, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Returns hypotheses as the search ranks them."""
    return hypotheses


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
        terms: The terms of `inference.glossary`; None without one.
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
        terms: GlossaryTerms | None = None,
    ) -> None:
        self._trees, self._terms = trees, terms
        self._engine, self._tokenizer, self.settings = engine, tokenizer, settings
        self._continues = continues
        self.languages = languages or TranslatorLanguages.of(
            tokenizer.languages, source_language, target_language
        )
        self._target_language, self._rerank = target_language, rerank
        self._pieces = tokenizer.target_vocabulary.pieces
        self._aligner = LineAligner(engine, tokenizer, can_align=trees is None and not continues)
        if settings.alignments:
            self._aligner.check()
        if settings.flags is not None:
            self._flagger.check(settings.flags)

    @cached_property
    def _flagger(self) -> "LineFlagger":
        # Imported here: what looks at text takes a while to load, and most never ask for it.
        from mtkit.inference.flag_lines import LineFlagger  # noqa: PLC0415

        can_flag = self._trees is None and not self._continues
        return LineFlagger(self.languages, self._tokenizer.split_tags, can_flag=can_flag)

    def translate(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns each line's translation; those with equal settings are searched together.

        Args:
            requests: The lines.
            first_line: Number of the first of them.

        Raises:
            MtkitError: As `Translator.search`.
        """
        lines = [
            first_line + index if request.line is None else request.line
            for index, request in enumerate(requests)
        ]
        settings = [self._choose_settings(request) for request in requests]
        if any(each.alignments for each in settings):
            self._aligner.check()
        for flags in {each.flags for each in settings if each.flags is not None}:
            self._flagger.check(flags)
        if self._trees is not None:
            requests = [replace(request, text=self._spell(request.text)) for request in requests]
        max_tokens = self._engine.max_tokens or sys.maxsize
        limits = [
            # A sentence's tree can't be made of the trees of its parts.
            max_tokens if self._trees is not None else min(each.max_source_tokens, max_tokens)
            for each in settings
        ]
        encoded, warnings = self._encoder.encode(requests, lines, limits)
        texts = [request.text for request in requests]
        given = encoded if self._terms is None else self._terms.annotate(texts, encoded, limits)
        searched = iter(self._search(given, settings))
        ranked: list[list[list[Hypothesis]]] = []
        for line, parts, each in zip(lines, encoded, settings, strict=True):
            found = list(itertools.islice(searched, len(parts)))
            for hypotheses in found:
                _check_finite(hypotheses, each, line)
            ranked.append(
                [
                    self._rerank(part, [self._decode(one, part) for one in hypotheses])
                    for part, hypotheses in zip(parts, found, strict=True)
                ]
            )
        self._insist_on_terms(texts, encoded, ranked, settings)
        aligned = [index for index, each in enumerate(settings) if each.alignments]
        if aligned:
            found_links = self._aligner.align_lines(
                [(requests[index].text, encoded[index], ranked[index]) for index in aligned],
                self.settings.batch_tokens,
            )
            for index, of_line in zip(aligned, found_links, strict=True):
                ranked[index] = of_line
        translations = []
        for index, (request, line, parts) in enumerate(zip(requests, lines, encoded, strict=True)):
            if not parts:
                answer = self._answer_without_search(request, warnings.get(index))
                if settings[index].alignments:
                    answer = replace(answer, candidates=UNALIGNED)
                translations.append(answer)
                continue
            candidates = join_parts(ranked[index], self._choose_joining(request))
            if self._trees is not None:
                candidates = self._make_trees(request.text, candidates, parts[0])
            told = [warnings[index]] if index in warnings else []
            told += [cut_warning(line)] if candidates[0].reached_limit else []
            translations.append(
                Translation(candidates, was_split=len(parts) > 1, warnings=tuple(told))
            )
        return [
            self._flag(request, translation, each.flags)
            for request, translation, each in zip(requests, translations, settings, strict=True)
        ]

    def _flag(
        self, request: Request, translation: Translation, settings: Flags | None
    ) -> Translation:
        """Returns a translation with its flags, where they are asked for."""
        return (
            translation if settings is None else self._flagger.flag(request, translation, settings)
        )

    def _insist_on_terms(
        self,
        texts: Sequence[str],
        encoded: Sequence[Sequence[EncodedSource]],
        ranked: Sequence[list[list[Hypothesis]]],
        settings: Sequence[Inference],
    ) -> None:
        """Searches parts again whose translations lack terms, and puts what is found in place."""
        if self._terms is None or self._terms.way == "annotation":
            return
        again: dict[tuple[int, int], EncodedSource] = {}
        for line, number, terms in self._terms.find_in_parts(texts, encoded):
            part = self._terms.require(encoded[line][number], terms, ranked[line][number])
            if part is not None:
                again[line, number] = part
        searched = self._search(
            [[part] for part in again.values()], [settings[line] for line, _ in again]
        )
        for ((line, number), part), hypotheses in zip(again.items(), searched, strict=True):
            # Where no output has all that is asked for, what was found before stays.
            if hypotheses and all(math.isfinite(each.score) for each in hypotheses):
                decoded = [self._decode(one, part) for one in hypotheses]
                ranked[line][number] = self._rerank(part, decoded)

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations, the requests' prefixes, as `Translator.score` does."""
        scored = [BLANK] * len(requests)
        indices = [
            index
            for index, request in enumerate(requests)
            if request.text.strip() or request.prefix.strip()
        ]
        lines = [first_line + index for index in indices]
        texts = [requests[index].prefix.rstrip("\r\n") for index in indices]
        given = self._encode_given([requests[index] for index in indices], texts, lines)
        for (source, target), line in zip(given, lines, strict=True):
            num_tokens = max(len(source.tokens), len(source.begin) + len(target))
            if num_tokens > self._max_given_tokens:
                raise LineError(
                    line,
                    f"{num_tokens:,} tokens, but at most {self._max_given_tokens:,} can be scored",
                    "put one sentence on each line",
                )
        lengths = [len(source.tokens) + len(target) for source, target in given]
        candidates = list(BLANK.candidates) * len(given)
        for batch in make_batches(lengths, self.settings.batch_tokens):
            of_batch = [given[which] for which in batch]
            found = self._engine.score(
                [source.tokens for source, _ in of_batch],
                [(*source.begin, *target) for source, target in of_batch],
            )
            for which, (source, target), log_probabilities in zip(
                batch, of_batch, found, strict=True
            ):
                num_before = len(source.begin)
                cumulative = list(itertools.accumulate(log_probabilities[num_before:]))
                hypothesis = end_output(
                    target, cumulative, self.settings.length_penalty, num_before=num_before
                )
                _check_finite([hypothesis], self.settings, lines[which])
                candidates[which] = replace(self._decode(hypothesis), text=texts[which])
        if self.settings.alignments:
            scored = [replace(BLANK, candidates=UNALIGNED)] * len(requests)
            rows = [
                (requests[index].text.rstrip("\r\n"), source, candidate)
                for index, (source, _), candidate in zip(indices, given, candidates, strict=True)
            ]
            candidates = self._aligner.align_given(rows, self.settings.batch_tokens)
        for index, candidate in zip(indices, candidates, strict=True):
            scored[index] = Translation((candidate,))
        flags = self.settings.flags
        return [
            self._flag(request, translation, flags)
            for request, translation in zip(requests, scored, strict=True)
        ]

    def _encode_given(
        self, requests: Sequence[Request], texts: Sequence[str], lines: Sequence[int]
    ) -> list[tuple[EncodedSource, list[int]]]:
        """Returns lines and their given translations in tokens."""
        sources = self._tokenizer.encode_source(
            [self._spell(request.text.rstrip("\r\n")) for request in requests]
        )
        targets = self._tokenizer.encode_target(self._write_symbols(texts, lines))
        if self._continues:
            marked = [NO_MARKS] * len(requests)
        else:
            marked = [
                mark_request(self._tokenizer, self.languages, request, line)
                for request, line in zip(requests, lines, strict=True)
            ]
        return [
            (EncodedSource([*marks.before, *source, *marks.behind], begin=marks.begin), target)
            for source, target, marks in zip(sources, targets, marked, strict=True)
        ]

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned."""
        return self._aligner.can_align

    def _answer_without_search(self, request: Request, warning: LineWarning | None) -> Translation:
        """Returns the answer to a line without tokens, or to a sentence too long for a parser."""
        if self._trees is None or not request.text.strip():
            return BLANK
        candidates = self._make_trees(request.text, BLANK.candidates)
        return Translation(candidates, warnings=() if warning is None else (warning,))

    def _make_trees(
        self, sentence: str, candidates: Sequence[Hypothesis], part: EncodedSource | None = None
    ) -> tuple[Hypothesis, ...]:
        """Returns a parser's candidates with their trees as text."""
        assert self._trees is not None
        attended = self._attend(part, candidates)
        restored = [
            self._trees.make(sentence, each.text, attention)
            for each, attention in zip(candidates, attended, strict=True)
        ]
        return tuple(
            replace(each, text=write_tree(one.tree), repairs=one.repairs)
            for each, one in zip(candidates, restored, strict=True)
        )

    def _attend(
        self, part: EncodedSource | None, candidates: Sequence[Hypothesis]
    ) -> list[OutputAttention | None]:
        """Returns what each candidate attended to, where the engine can tell."""
        found = None
        if part is not None and isinstance(self._engine, AttendingEngine):
            outputs = [each.token_ids for each in candidates]
            found = self._engine.attend(part.tokens, [(*part.begin, *output) for output in outputs])
            found = None if found is None else [each[len(part.begin) :] for each in found]
        if part is None or found is None:
            return [None] * len(candidates)
        pieces = self._tokenizer.source_vocabulary.pieces
        of_source = [pieces[token] for token in part.tokens]
        return [
            OutputAttention(weights, of_source, each.pieces)
            for weights, each in zip(found, candidates, strict=True)
        ]

    def _spell(self, sentence: str) -> str:
        """Returns a sentence as the model has learned to read: a treebank has no bare brackets."""
        return sentence if self._trees is None else " ".join(split_words(sentence))

    def _write_symbols(self, texts: Sequence[str], lines: Sequence[int]) -> Sequence[str]:
        """Returns given targets as the model writes them: of trees their symbols."""
        if self._trees is None:
            return texts
        symbols = []
        for text, line in zip(texts, lines, strict=True):
            try:
                symbols.append(self._trees.write_symbols(text))
            except ValueError as error:
                raise LineError(
                    line, f"no tree to score: {error}", "expected (TOP (S (VP (VB Go)) (. .)))"
                ) from error
            except MtkitError as error:
                raise LineError(line, error.message, error.hint) from error
        return symbols

    @property
    def _encoder(self) -> LineEncoder:
        if self._continues:
            return ContinuationEncoder(self._tokenizer, self._max_given_tokens)
        cuts = self._trees is None
        return SourceEncoder(self._tokenizer, self._max_given_tokens, self.languages, cuts=cuts)

    def _choose_joining(self, request: Request) -> str:
        """Returns the language by whose rules the parts of a line's translation are joined."""
        _, target = self.languages.resolve(request.source_language, request.target_language)
        return target or self._target_language

    @property
    def _max_given_tokens(self) -> int:
        """Max tokens of texts that can't be cut: given targets, and sources to be scored."""
        return self._engine.max_tokens or _MAX_GIVEN_TOKENS

    def _choose_settings(self, request: Request) -> Inference:
        if request.settings is None:
            return self.settings
        kept = {key: getattr(self.settings, key) for key in _ENGINE_KEYS}
        return request.settings.model_copy(update=kept)

    def _search(
        self, encoded: Sequence[Sequence[EncodedSource]], settings: Sequence[Inference]
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each part of each line, one line's behind the other's."""
        groups: dict[Inference, list[int]] = {}
        parts: list[EncodedSource] = []
        wants_weights: list[bool] = []
        # Alignments change no search: lines with and without share batches.
        aligns = any(each.alignments for each in settings)
        shared = {each: each.model_copy(update={"alignments": aligns}) for each in set(settings)}
        for of_line, each in zip(encoded, settings, strict=True):
            indices = range(len(parts), len(parts) + len(of_line))
            groups.setdefault(shared[each], []).extend(indices)
            parts.extend(of_line)
            wants_weights += [each.alignments] * len(of_line)
        found: list[list[Hypothesis]] = [[] for _ in parts]
        for each, group in groups.items():
            searched = search_in_batches(self._engine, [parts[index] for index in group], each)
            for index, hypotheses in zip(group, searched, strict=True):
                found[index] = (
                    hypotheses
                    if wants_weights[index] == aligns
                    else [replace(one, alignment_weights=None) for one in hypotheses]
                )
        return found

    def _decode(self, hypothesis: Hypothesis, part: EncodedSource | None = None) -> Hypothesis:
        begun = part.tokens if part is not None and self._continues else ()
        text = self._tokenizer.decode_target([*begun, *hypothesis.token_ids])
        return replace(
            hypothesis,
            text=text.replace("\n", " ").replace("\r", " "),
            pieces=tuple(self._pieces[token] for token in hypothesis.token_ids),
        )


def _check_finite(hypotheses: Sequence[Hypothesis], settings: Inference, line: int) -> None:
    """Checks that there are hypotheses, with scores that are neither NaN nor infinite."""
    numbers = (number for each in hypotheses for number in (each.log_probability, each.score))
    if hypotheses and all(map(math.isfinite, numbers)):
        return
    rules = [
        f"inference.{key} = {value}"
        for key in ("min_length", "no_repeat_ngram")
        if (value := getattr(settings, key))
    ]
    raise LineError(
        line,
        "the model's probabilities are NaN"
        + (f", or no output satisfies {' and '.join(rules)}" if rules else ""),
        ("change these settings; or " if rules else "")
        + "its training diverged: use an earlier checkpoint, or train with a lower learning rate",
    )


def cut_warning(line: int) -> LineWarning:
    """Returns the warning that a line's translation was cut."""
    return LineWarning(
        CUT,
        f"input line {line}: the translation was cut at the length limit "
        "(inference.max_extra_tokens or inference.max_output_tokens)",
        line,
    )
