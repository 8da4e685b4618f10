"""A second objective, unlike translation: the frequencies of single tokens."""

import numpy as np
import torch
from torch import nn

from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices
from mtkit.training.loss import LossSums


class UnigramObjective:
    """Cross entropy of tokens that don't depend on anything; the model is one logit per token.

    What it can reach at best is the tokens' entropy, which is known by hand.
    """

    def __init__(self, tokens: list[int], vocab_size: int, *, batch_size: int) -> None:
        self._tokens = torch.tensor(tokens)
        self._batch_size = batch_size
        self.model = nn.Linear(1, vocab_size, bias=False)
        nn.init.zeros_(self.model.weight)
        self.planned_epochs: list[int] = []

    def plan_epoch(self, epoch: int) -> list[Indices]:
        self.planned_epochs.append(epoch)
        order = np.random.default_rng(epoch).permutation(len(self._tokens))
        return np.split(order, len(order) // self._batch_size)

    def split_update(
        self, examples: Indices, num_processes: int, *, micro_batch_tokens: int
    ) -> list[list[MicroBatch]]:
        parts = np.array_split(examples, num_processes)
        # Two micro-batches a process, of unequal size: their sums must still weigh each token once.
        return [[_pass(part[:3]), _pass(part[3:])] for part in parts]

    def count_tokens(self, examples: Indices, epoch: int) -> int:
        return len(examples)

    def measure(self, micro_batch: MicroBatch, epoch: int) -> LossSums:
        examples = micro_batch.sentences
        logits = self.model(torch.ones(len(examples), 1))
        loss = nn.functional.cross_entropy(logits, self._tokens[examples], reduction="sum")
        return LossSums(loss, loss.detach())

    def measure_largest(self, micro_batch_tokens: int) -> LossSums:
        return self.measure(_pass(np.arange(min(micro_batch_tokens, len(self._tokens)))), 0)


def _pass(examples: Indices) -> MicroBatch:
    return MicroBatch(examples, len(examples), len(examples), len(examples))
