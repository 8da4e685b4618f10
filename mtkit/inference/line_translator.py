"""Lines to translations, step by step: segment, encode, search, rerank, join."""

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.align import WordAligner, align_words
from mtkit.inference.batching import make_batches, search_in_batches
from mtkit.inference.encode import ContinuationEncoder, LineEncoder, SourceEncoder
from mtkit.inference.engines.engine import (
    AligningEngine,
    AttendingEngine,
    EncodedSource,
    Engine,
)
from mtkit.inference.parse import OutputAttention, TreeMaker
from mtkit.inference.search.penalties import end_output
from mtkit.inference.segment import join_parts
from mtkit.inference.translation import (
    BLANK,
    Hypothesis,
    LineError,
    LineWarning,
    Request,
    Translation,
    WordAlignment,
)
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.trees.brackets import split_words, write_tree

_MAX_GIVEN_TOKENS = 4_096
"""Max tokens of a given text, which can't be cut, if the model itself has no limit: memory grows
with the square of the length."""
_ENGINE_KEYS = ("engine", "precision", "processes", "batch_tokens", "fusion")
"""Settings that a request can't change."""
_WITHOUT_ALIGNMENTS = (
    "inference.alignments tells words by the attention of a translator with an encoder and a "
    "decoder, which this model isn't",
    "remove it: --set inference.alignments=false",
)
"""Message and hint of the error where a model has no alignments."""
_UNALIGNED = (replace(BLANK.candidates[0], alignment=WordAlignment((), (), ())),)
"""The candidates of a blank line where alignments are asked for."""
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
        target_language: Its code; it says how parts of a long line are joined.
        rerank: Orders each part's hypotheses before parts are joined.
        continues: Whether lines are continued, as by a causal language model, not translated.
        trees: Makes trees of a parser's output; None for text.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        *,
        target_language: str = "",
        rerank: Reranker = keep_order,
        continues: bool = False,
        trees: TreeMaker | None = None,
    ) -> None:
        self._trees = trees
        self._engine, self._tokenizer, self.settings = engine, tokenizer, settings
        self._continues = continues
        self._target_language, self._rerank = target_language, rerank
        self._pieces = tokenizer.target_vocabulary.pieces
        self._aligner = WordAligner(tokenizer)
        self._check_alignments([settings])

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
        self._check_alignments(settings)
        if self._trees is not None:
            requests = [replace(request, text=self._spell(request.text)) for request in requests]
        max_tokens = self._engine.max_tokens or sys.maxsize
        limits = [
            # A sentence's tree can't be made of the trees of its parts.
            max_tokens if self._trees is not None else min(each.max_source_tokens, max_tokens)
            for each in settings
        ]
        encoded, warnings = self._encoder.encode(requests, lines, limits)
        searched = iter(self._search(encoded, settings))
        ranked: list[list[list[Hypothesis]]] = []
        for line, parts in zip(lines, encoded, strict=True):
            found = list(itertools.islice(searched, len(parts)))
            for hypotheses in found:
                _check_finite(hypotheses, settings[len(ranked)], line)
            ranked.append(
                [
                    self._rerank(part, [self._decode(each, part) for each in hypotheses])
                    for part, hypotheses in zip(parts, found, strict=True)
                ]
            )
        self._align(requests, encoded, ranked, [each.alignments for each in settings])
        return [
            self._finish(request, line, parts, of_parts, warnings.get(index), each)
            for index, (request, line, parts, of_parts, each) in enumerate(
                zip(requests, lines, encoded, ranked, settings, strict=True)
            )
        ]

    def _finish(  # noqa: PLR0917 (what is known of one line)
        self,
        request: Request,
        line: int,
        parts: Sequence[EncodedSource],
        ranked: Sequence[list[Hypothesis]],
        warning: LineWarning | None,
        settings: Inference,
    ) -> Translation:
        """Returns a line's translation, given the hypotheses of its parts."""
        if not parts:
            answer = self._answer_without_search(request, warning)
            return replace(answer, candidates=_UNALIGNED) if settings.alignments else answer
        candidates = join_parts(ranked, self._target_language)
        if self._trees is not None:
            candidates = self._make_trees(request.text, candidates, parts[0])
        of_line = [] if warning is None else [warning]
        of_line += [_cut_warning(line)] if candidates[0].reached_limit else []
        return Translation(candidates, was_split=len(parts) > 1, warnings=tuple(of_line))

    def score(self, pairs: Sequence[tuple[str, str]], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations with their scores, as `Translator.score` does."""
        scored = [BLANK] * len(pairs)
        indices = [index for index, pair in enumerate(pairs) if any(map(str.strip, pair))]
        texts = [pairs[index][1].rstrip("\r\n") for index in indices]
        targets_as_text = self._write_symbols(texts, [first_line + index for index in indices])
        sources = self._tokenizer.encode_source(
            [self._spell(pairs[index][0].rstrip("\r\n")) for index in indices]
        )
        targets = self._tokenizer.encode_target(targets_as_text)
        for index, source, target in zip(indices, sources, targets, strict=True):
            num_tokens = max(len(source), len(target))
            if num_tokens > self._max_given_tokens:
                raise LineError(
                    first_line + index,
                    f"{num_tokens:,} tokens, but at most {self._max_given_tokens:,} can be scored",
                    "put one sentence on each line",
                )
        lengths = [
            len(source) + len(target) for source, target in zip(sources, targets, strict=True)
        ]
        for batch in make_batches(lengths, self.settings.batch_tokens):
            found = self._engine.score(
                [sources[which] for which in batch], [targets[which] for which in batch]
            )
            for which, log_probabilities in zip(batch, found, strict=True):
                cumulative = list(itertools.accumulate(log_probabilities))
                hypothesis = end_output(targets[which], cumulative, self.settings.length_penalty)
                _check_finite([hypothesis], self.settings, first_line + indices[which])
                candidate = replace(self._decode(hypothesis), text=texts[which])
                scored[indices[which]] = Translation((candidate,))
        if self.settings.alignments:
            scored = [
                replace(each, candidates=_UNALIGNED) if each is BLANK else each for each in scored
            ]
            self._align_given(pairs, indices, sources, targets, scored)
        return scored

    def _align_given(
        self,
        pairs: Sequence[tuple[str, str]],
        indices: Sequence[int],
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        scored: list[Translation],
    ) -> None:
        """Adds the links of given targets' words to what they scored.

        Args:
            pairs: All lines and their targets.
            indices: Those that were scored.
            sources: Source tokens of each of these.
            targets: Target tokens of each of these.
            scored: What is changed: an item for each of all lines.
        """
        weights = self._attend_to_sources(sources, targets)
        for index, source, of_pieces in zip(indices, sources, weights, strict=True):
            line = pairs[index][0].rstrip("\r\n")
            tags, _ = self._tokenizer.split_tags(line)
            part = EncodedSource(source, span=(len(tags), len(line)))
            [candidate] = scored[index].candidates
            found = align_words(
                self._aligner.locate_source(line, part),
                self._aligner.locate_given(candidate.text),
                of_pieces,
            )
            scored[index] = Translation((replace(candidate, alignment=found),))

    def _align(
        self,
        requests: Sequence[Request],
        encoded: Sequence[Sequence[EncodedSource]],
        ranked: Sequence[list[list[Hypothesis]]],
        is_wanted: Sequence[bool],
    ) -> None:
        """Adds to hypotheses the links of their words to their lines' words.

        Args:
            requests: The lines.
            encoded: The parts of each.
            ranked: The hypotheses of each part of each line, which are replaced.
            is_wanted: Whether a line is aligned.
        """
        located = [
            [self._aligner.locate_source(request.text, part) for part in parts] if wanted else []
            for request, parts, wanted in zip(requests, encoded, is_wanted, strict=True)
        ]
        rows = [
            (line, number, rank)
            for line, parts in enumerate(located)
            for number in range(len(parts))
            for rank in range(len(ranked[line][number]))
        ]
        weights = self._attend_to_sources(
            [encoded[line][number].tokens for line, number, _ in rows],
            [ranked[line][number][rank].token_ids for line, number, rank in rows],
        )
        for (line, number, rank), of_pieces in zip(rows, weights, strict=True):
            hypothesis = ranked[line][number][rank]
            target = self._aligner.locate_output(hypothesis.text, hypothesis.token_ids)
            found = align_words(located[line][number], target, of_pieces)
            ranked[line][number][rank] = replace(hypothesis, alignment=found)

    def _attend_to_sources(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns what each target attends to, in batches."""
        if not targets:
            return []
        assert isinstance(self._engine, AligningEngine), "checked before"
        lengths = [len(pair[0]) + len(pair[1]) for pair in zip(sources, targets, strict=True)]
        found: dict[int, NDArray[np.float32]] = {}
        for batch in make_batches(lengths, self.settings.batch_tokens):
            weights = self._engine.align(
                [sources[which] for which in batch], [targets[which] for which in batch]
            )
            found.update(zip(batch, weights, strict=True))
        return [found[which] for which in range(len(sources))]

    def _check_alignments(self, settings: Sequence[Inference]) -> None:
        """Checks that words can be aligned where that is asked for.

        Raises:
            MtkitError: They can't.
        """
        is_able = isinstance(self._engine, AligningEngine) and self._engine.aligns
        if any(each.alignments for each in settings) and (
            self._trees is not None or self._continues or not is_able
        ):
            raise MtkitError(*_WITHOUT_ALIGNMENTS)

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
            found = self._engine.attend(part.tokens, outputs)
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
        return SourceEncoder(self._tokenizer, self._max_given_tokens, cuts=cuts)

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
        for of_line, each in zip(encoded, settings, strict=True):
            indices = range(len(parts), len(parts) + len(of_line))
            groups.setdefault(each, []).extend(indices)
            parts.extend(of_line)
        found: list[list[Hypothesis]] = [[] for _ in parts]
        for each, group in groups.items():
            searched = search_in_batches(self._engine, [parts[index] for index in group], each)
            for index, hypotheses in zip(group, searched, strict=True):
                found[index] = hypotheses
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


def _cut_warning(line: int) -> LineWarning:
    return LineWarning(
        "cut at the length limit",
        f"input line {line}: the translation was cut at the length limit "
        "(inference.max_extra_tokens or inference.max_output_tokens)",
        line,
    )
