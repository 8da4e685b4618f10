"""A model made of tables, whose every probability a test writes down."""

import itertools
import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtkit.data.tokenizer import BOS, EOS

A, B = 4, 5
"""Two ordinary tokens; with PAD, UNK, BOS and EOS they are the vocabulary."""
VOCAB = 6

Prefix = tuple[int, ...]
Table = Callable[[Prefix], dict[int, float]]
"""The probabilities of what may follow a prefix; a token left out has none."""


class TableModel:
    """A StepModel of one table per sentence; it checks that rows and sentences stay in step."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = list(tables)
        self._sentences = list(range(len(tables)))
        self._rows: list[tuple[int, Prefix]] = [(sentence, ()) for sentence in self._sentences]
        self.num_steps = 0

    def step(self, tokens: Tensor) -> Tensor:
        self.num_steps += 1
        width, remainder = divmod(len(self._rows), len(self._sentences))
        assert remainder == 0
        assert [sentence for sentence, _ in self._rows] == [
            sentence for sentence in self._sentences for _ in range(width)
        ]
        assert len(tokens) == len(self._rows)
        self._rows = [
            (sentence, (*prefix, token))
            for (sentence, prefix), token in zip(self._rows, tokens.tolist(), strict=True)
        ]
        log_probs = torch.full((len(self._rows), VOCAB), -torch.inf)
        for row, (sentence, prefix) in enumerate(self._rows):
            assert prefix[0] == BOS
            for token, probability in self._tables[sentence](prefix[1:]).items():
                log_probs[row, token] = math.log(probability) if probability else -math.inf
        return log_probs

    def select_rows(self, rows: Tensor) -> None:
        self._rows = [self._rows[row] for row in rows.tolist()]

    def select_sentences(self, sentences: Tensor) -> None:
        self._sentences = [self._sentences[place] for place in sentences.tolist()]


def written_out(probabilities: dict[Prefix, dict[int, float]]) -> Table:
    """Returns a table that lists every prefix that matters; any other ends at once."""
    return lambda prefix: probabilities.get(prefix, {EOS: 1.0})


def drawn_at_random(seed: int) -> Table:
    """Returns a table with random probabilities for all tokens, PAD and BOS too."""

    def table(prefix: Prefix) -> dict[int, float]:
        generator = random.Random(f"{seed} {prefix}")
        weights = [generator.random() ** 2 for _ in range(VOCAB)]
        return {token: weight / sum(weights) for token, weight in enumerate(weights)}

    return table


def enumerate_outputs(table: Table, max_length: int) -> dict[Prefix, float]:
    """Returns every output within the limit with its log-probability, by plain enumeration."""
    outputs = {}
    for length in range(1, max_length + 1):
        for body in itertools.product((1, A, B), repeat=length - 1):
            # An output of the greatest length may lack </s>.
            for last in (EOS, 1, A, B) if length == max_length else (EOS,):
                output = (*body, last)
                outputs[output] = sum(
                    math.log(table(output[:place])[token]) for place, token in enumerate(output)
                )
    return outputs
