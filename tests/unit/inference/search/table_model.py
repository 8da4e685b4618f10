"""A model made of tables, whose every probability a test writes down."""

import itertools
import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtkit.text.token_ids import BOS, EOS

A, B = 4, 5
"""Two ordinary tokens; with PAD, UNK, BOS and EOS they are the vocabulary."""
VOCAB = 6

Prefix = tuple[int, ...]
Table = Callable[[Prefix], dict[int, float]]
"""The probabilities of what may follow a prefix; a token left out has none."""


class TableModel:
    """A StepModel of one table per sentence; it checks that hypotheses and sentences stay in step.

    Args:
        tables: One per sentence.
        attention: What a prefix's newest step pays to each source token; 0.5 each of two by
            default.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        attention: Callable[[Prefix], list[float]] = lambda prefix: [0.5, 0.5],
    ) -> None:
        self._tables = list(tables)
        self._attention = attention
        self._prefixes: list[list[Prefix]] = [[()] for _ in tables]
        self.num_steps = 0

    def step(self, tokens: Tensor) -> Tensor:
        self.num_steps += 1
        assert tokens.shape == (len(self._prefixes), len(self._prefixes[0]))
        self._prefixes = [
            [(*prefix, token) for prefix, token in zip(prefixes, row, strict=True)]
            for prefixes, row in zip(self._prefixes, tokens.tolist(), strict=True)
        ]
        log_probs = torch.full((*tokens.shape, VOCAB), -torch.inf)
        for place, (table, prefixes) in enumerate(zip(self._tables, self._prefixes, strict=True)):
            for rank, prefix in enumerate(prefixes):
                assert prefix[0] == BOS
                for token, probability in table(prefix[1:]).items():
                    value = math.log(probability) if probability else -math.inf
                    log_probs[place, rank, token] = value
        return log_probs

    def select(self, sentences: Sequence[int], parents: Tensor) -> None:
        self._tables = [self._tables[place] for place in sentences]
        kept = [self._prefixes[place] for place in sentences]
        self._prefixes = [
            [prefixes[parent] for parent in row]
            for prefixes, row in zip(kept, parents.tolist(), strict=True)
        ]

    def source_attention(self) -> tuple[Tensor, Tensor]:
        attention = torch.tensor(
            [[self._attention(prefix[1:]) for prefix in prefixes] for prefixes in self._prefixes]
        )
        return attention, torch.ones(len(self._tables), attention.shape[2], dtype=torch.bool)


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
