"""Scores given translations of lines."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mtkit.inference.batching import make_batches
from mtkit.inference.encode import limit_given, mark_request
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.line import Line, Part, TextModel
from mtkit.inference.parse import SentenceParser
from mtkit.inference.request import LineError
from mtkit.inference.search.rules import end_output
from mtkit.inference.search_parts import OutputDecoder, check_finite
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS


class LineScorer:
    """Scores given translations.

    Args:
        engine: The engine, with its model.
        model: What is known of the model.
        settings: `batch_tokens` and `length_penalty` are used.
        decoder: Adds their pieces to outputs.
        parser: Given targets are trees; None for text.
    """

    def __init__(
        self,
        engine: Engine,
        model: TextModel,
        settings: Inference,
        *,
        decoder: OutputDecoder,
        parser: SentenceParser | None,
    ) -> None:
        self._engine, self._model, self._settings = engine, model, settings
        self._decoder, self._parser = decoder, parser

    def score(self, lines: Sequence[Line]) -> None:
        """Fills in lines' one part, whose candidate is the given translation, the prefix.

        Raises:
            LineError: A text is too long, or a score is NaN or infinite; a parser's target is no
                tree.
        """
        texts = [line.request.prefix.rstrip("\r\n") for line in lines]
        given = self._encode(lines, texts)
        lengths = [len(source.tokens) + len(target) for source, target in given]
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
                check_finite([hypothesis], self._settings, lines[which].number)
                candidate = replace(self._decoder.decode(hypothesis), text=texts[which])
                lines[which].parts = [Part(source, source, candidates=[candidate])]

    def _encode(
        self, lines: Sequence[Line], texts: Sequence[str]
    ) -> list[tuple[EncodedSource, list[int]]]:
        """Returns lines and their given translations in tokens."""
        sentences = [line.text for line in lines]
        if self._parser is not None:
            sentences = list(map(self._parser.spell, sentences))
            texts = [
                self._parser.write_symbols(text, line.number)
                for text, line in zip(texts, lines, strict=True)
            ]
        tokenizer, max_tokens = self._model.tokenizer, limit_given(self._engine)
        given = []
        sources, targets = tokenizer.encode_source(sentences), tokenizer.encode_target(texts)
        for line, tokens, target in zip(lines, sources, targets, strict=True):
            marks = NO_MARKS if self._model.continues else mark_request(self._model, line)
            marked = [*marks.before, *tokens, *marks.behind]
            given.append((EncodedSource(marked, begin=marks.begin), target))
        for line, (source, target) in zip(lines, given, strict=True):
            num_tokens = max(len(source.tokens), len(source.begin) + len(target))
            if num_tokens > max_tokens:
                raise LineError(
                    line.number,
                    f"{num_tokens:,} tokens, but at most {max_tokens:,} can be scored",
                    "put one sentence on each line",
                )
        return given
