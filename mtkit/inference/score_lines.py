"""Scores given translations of lines."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.inference.batching import make_batches
from mtkit.inference.encode import limit_given, mark_request
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.outputs import OutputDecoder, check_finite
from mtkit.inference.parse import SentenceParser
from mtkit.inference.search.penalties import end_output
from mtkit.inference.translation import Hypothesis, LineError, Request
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS, LanguageTokens, TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer


@dataclass(frozen=True)
class ScoredLine:
    """A line with its given translation.

    Attributes:
        source: The line in tokens.
        candidate: The translation with its scores.
    """

    source: EncodedSource
    candidate: Hypothesis


class LineScorer:
    """Scores given translations.

    Args:
        engine: The engine, with its model.
        tokenizer: The model's.
        settings: `batch_tokens` and `length_penalty` are used.
        languages: What the model reads and writes.
        decoder: Adds their pieces to outputs.
        parser: Given targets are trees; None for text.
        continues: Whether lines are continued, not translated.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        *,
        languages: TranslatorLanguages,
        decoder: OutputDecoder,
        parser: SentenceParser | None,
        continues: bool,
    ) -> None:
        self._engine, self._tokenizer, self._settings = engine, tokenizer, settings
        self._languages, self._decoder = languages, decoder
        self._parser, self._continues = parser, continues

    def score(self, requests: Sequence[Request], lines: Sequence[int]) -> list[ScoredLine]:
        """Returns lines whose translations, the requests' prefixes, are given.

        Args:
            requests: The lines.
            lines: Each one's number.

        Raises:
            LineError: A text is too long, or a score is NaN or infinite; a parser's target is no
                tree.
        """
        texts = [request.prefix.rstrip("\r\n") for request in requests]
        given = self._encode(requests, texts, lines)
        self._check_lengths(given, lines)
        lengths = [len(source.tokens) + len(target) for source, target in given]
        scored: dict[int, ScoredLine] = {}
        for batch in make_batches(lengths, self._settings.batch_tokens):
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
                    target, cumulative, self._settings.length_penalty, num_before=num_before
                )
                check_finite([hypothesis], self._settings, lines[which])
                decoded = replace(self._decoder.decode(hypothesis), text=texts[which])
                scored[which] = ScoredLine(source, decoded)
        return [scored[which] for which in range(len(given))]

    def _encode(
        self, requests: Sequence[Request], texts: Sequence[str], lines: Sequence[int]
    ) -> list[tuple[EncodedSource, list[int]]]:
        """Returns lines and their given translations in tokens."""
        sentences = [request.text.rstrip("\r\n") for request in requests]
        if self._parser is not None:
            sentences = list(map(self._parser.spell, sentences))
            texts = list(map(self._parser.write_symbols, texts, lines))
        sources = self._tokenizer.encode_source(sentences)
        targets = self._tokenizer.encode_target(texts)
        marked = map(self._mark, requests, lines)
        return [
            (EncodedSource([*marks.before, *source, *marks.behind], begin=marks.begin), target)
            for source, target, marks in zip(sources, targets, marked, strict=True)
        ]

    def _mark(self, request: Request, line: int) -> LanguageTokens:
        if self._continues:
            return NO_MARKS
        return mark_request(self._tokenizer, self._languages, request, line)

    def _check_lengths(
        self, given: Sequence[tuple[EncodedSource, list[int]]], lines: Sequence[int]
    ) -> None:
        max_tokens = limit_given(self._engine)
        for (source, target), line in zip(given, lines, strict=True):
            num_tokens = max(len(source.tokens), len(source.begin) + len(target))
            if num_tokens > max_tokens:
                raise LineError(
                    line,
                    f"{num_tokens:,} tokens, but at most {max_tokens:,} can be scored",
                    "put one sentence on each line",
                )
