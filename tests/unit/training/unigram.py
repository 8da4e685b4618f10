"""A second objective, unlike translation: the frequencies of single tokens."""

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.updates import TrainingBatches
from mtkit.training.loss import LossSums
from mtkit.training.update import Objective
from mtkit.training.validation import ValidationResult


class UnigramBatches(TrainingBatches[Tensor]):
    """Tokens, each an example; two micro-batches a process, of unequal size."""

    def __init__(self, tokens: list[int], batch_size: int) -> None:
        super().__init__()
        self._tokens = torch.tensor(tokens)
        self._batch_size = batch_size
        self.planned_epochs: list[int] = []

    @property
    def longest(self) -> int:
        return 8

    def plan_epoch(self, epoch: int) -> list[Indices]:
        self.planned_epochs.append(epoch)
        order = np.random.default_rng(epoch).permutation(len(self._tokens))
        return np.split(order, len(order) // self._batch_size)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        parts = np.array_split(examples, num_processes)
        # Their sums must still weigh each token once.
        return [[one_pass(part[:3]), one_pass(part[3:])] for part in parts]

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        return {"text": np.ones_like(examples)}

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        return len(examples)

    def gather(self, micro_batch: MicroBatch, epoch: int) -> Tensor:
        return self._tokens[micro_batch.sentences]

    def largest(self, limit: int) -> Tensor:
        return self._tokens[torch.arange(limit) % len(self._tokens)]


class UnigramObjective(Objective[nn.Linear, Tensor]):
    """Cross entropy of tokens that don't depend on anything; the model is one logit per token.

    What it can reach at best is the tokens' entropy, which is known by hand.
    """

    def __init__(self, batches: TrainingBatches[Tensor], vocab_size: int, scores=()) -> None:
        self.batches = batches
        self.model = nn.Linear(1, vocab_size, bias=False)
        nn.init.zeros_(self.model.weight)
        self._scores = list(scores)

    @classmethod
    def of(cls, tokens: list[int], vocab_size: int, *, batch_size: int, scores=()):
        return cls(UnigramBatches(tokens, batch_size), vocab_size, scores)

    def loss(self, batch: Tensor) -> LossSums:
        logits = self.model(torch.ones(len(batch), 1))
        loss = nn.functional.cross_entropy(logits, batch, reduction="sum")
        return LossSums(loss, loss.detach())

    def validate(self) -> ValidationResult:
        score = self._scores.pop(0) if self._scores else 0.0
        # No translation: no BLEU, no chrF.
        return ValidationResult(score, dict.fromkeys(("loss", "nll", "perplexity"), score), [])


def one_pass(examples: Indices) -> MicroBatch:
    return MicroBatch(examples, len(examples), len(examples), len(examples))
