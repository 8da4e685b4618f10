"""One update: what it does where memory runs out or a number is missing."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from mtkit.data.batches.micro_batches import MicroBatch, split_update
from mtkit.data.batches.ragged import Indices
from mtkit.errors import MtkitError
from mtkit.network.device import is_out_of_memory
from mtkit.recipe import Recipe, load_recipe
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.update import RankRequests, Updater, UpdateResult

from .unigram import UnigramBatches, UnigramObjective, one_pass

TOKENS = [0] * 16 + [1] * 8 + [2] * 8


class CutBatches(UnigramBatches):
    """All examples in one update, cut at the limit of a pass; each example is one token."""

    def __init__(self) -> None:
        super().__init__(TOKENS, 32)

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        return [[one_pass(part) for part in np.split(examples, range(limit, 32, limit))]]


class SmallMemory(UnigramObjective):
    """Holds so many tokens at once."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(CutBatches(), 3)
        self.num_tokens = num_tokens
        self.sizes: list[int] = []

    def loss(self, batch: Tensor) -> LossSums:
        self.sizes.append(len(batch))
        if len(batch) > self.num_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().loss(batch)


@dataclass(frozen=True)
class Parts:
    """All that an update takes."""

    recipe: Recipe
    objective: UnigramObjective
    learner: Learner
    processes: ProcessGroup

    @property
    def updater(self) -> Updater:
        return Updater(
            self.recipe.training,
            self.objective,
            self.learner,
            self.processes,
            seed=self.recipe.seed,
            max_tokens_key=self.recipe.data.max_tokens_key,
        )

    def update(self, limit: int) -> UpdateResult:
        update = self.objective.batches.update(0, 0, limit)
        return self.updater.make(1, update, rate=0.1, requests=RankRequests())

    def fit_micro_batch(self) -> int:
        return self.updater.fit_micro_batch()


def build(objective: UnigramObjective, *overrides: str) -> Parts:
    recipe = load_recipe("phrasebook-en-de", ["training.batch_tokens=1024", *overrides])
    learner = Learner.of(objective.model, recipe.training)
    return Parts(recipe, objective, learner, ProcessGroup(0, 1, torch.device("cpu")))


def test_an_update_that_does_not_fit_is_made_in_smaller_passes(capsys) -> None:
    small = SmallMemory(10)
    parts = build(small)
    outcome = parts.update(32)
    assert small.sizes == [32, 16, 8, 8, 8, 8]
    assert (outcome.micro_batch_tokens, outcome.is_applied) == (8, True)
    assert "step 1: out of memory: retrying in micro-batches of 16 to" in capsys.readouterr().err
    # The gradient of what did fit before memory ran out isn't counted twice: by hand, softmax
    # minus frequency.
    gradient = parts.learner.model.weight.grad.flatten().tolist()
    assert gradient == pytest.approx([-1 / 6, 1 / 12, 1 / 12], rel=1e-6)
    assert outcome.loss / 32 == pytest.approx(math.log(3.0), rel=1e-6)


def test_a_row_of_both_sides_counts_once_per_side(capsys) -> None:
    small = SmallMemory(10)
    # As for a decoder-only translator: limits are of one side.
    small.batches.sides_in_a_row = 2
    small.batches.split = lambda examples, num_processes, limit: CutBatches.split(
        small.batches, examples, num_processes, 2 * limit
    )
    outcome = build(small).update(16)
    assert small.sizes == [32, 16, 8, 8, 8, 8]
    assert outcome.micro_batch_tokens == 4
    assert "retrying in micro-batches of 8 to" in capsys.readouterr().err


def test_one_sentence_that_does_not_fit_ends_training() -> None:
    with pytest.raises(MtkitError, match="step 1: out of memory, even in micro-batches of a"):
        build(SmallMemory(0)).update(32)


@pytest.mark.parametrize(
    ("wanted", "memory", "found"),
    [
        # Halved until it fits.
        ("512", 2_000, 512),
        ("512", 300, 256),
        # All of an update, and a little more, on one process.
        ("'auto'", 2_000, 1_177),
        ("'auto'", 300, 294),
        # The longest sentence bounds it below.
        ("512", 10, 8),
    ],
)
def test_the_largest_pass_is_fitted_to_the_memory(wanted: str, memory: int, found: int) -> None:
    parts = build(SmallMemory(memory), f"training.micro_batch_tokens={wanted}")
    before = parts.learner.digest()
    assert parts.fit_micro_batch() == found
    assert parts.learner.digest() == before
    assert parts.learner.model.weight.grad is None


def test_not_even_one_sentence_fits() -> None:
    with pytest.raises(
        MtkitError, match="out of memory with a single sentence of 8 tokens per side"
    ):
        build(SmallMemory(7)).fit_micro_batch()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_changes_nothing(value: float) -> None:
    class Broken(UnigramObjective):
        def loss(self, batch: Tensor) -> LossSums:
            sums = super().loss(batch)
            return sums._replace(loss=sums.loss * value)

    parts = build(Broken(CutBatches(), 3))
    before = [tensor.clone() for tensor in parts.learner.tensors()]
    outcome = parts.update(32)
    assert not outcome.is_applied
    assert all(map(torch.equal, parts.learner.tensors(), before))
    assert parts.learner.num_updates == 0


def test_what_memory_errors_look_like() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    # As torch's allocator words it on a processor.
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes don't match"))


def test_cuts_that_get_no_smaller_end_training() -> None:
    lengths = np.array([200] + [20] * 40 + [100] * 3)

    class LongSentences(UnigramBatches):
        def split(
            self, examples: Indices, num_processes: int, limit: int
        ) -> list[list[MicroBatch]]:
            return split_update(
                examples,
                lengths[examples],
                lengths[examples],
                micro_batch_tokens=limit,
                num_processes=num_processes,
            )

    class Full(UnigramObjective):
        def loss(self, batch: Tensor) -> LossSums:
            raise torch.OutOfMemoryError("CUDA out of memory: another program has it all")

    parts = build(Full(LongSentences([0] * len(lengths), len(lengths)), 3))
    with pytest.raises(MtkitError, match="even in micro-batches of a single sentence") as caught:
        parts.update(8_192)
    assert "check what else uses the memory" in caught.value.hint
