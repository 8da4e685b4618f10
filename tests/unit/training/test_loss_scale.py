"""The loss scale of fp16, against torch's own, and what an update does by it."""

import math

import pytest
import torch
from torch import Tensor, nn

from mtkit.recipe import load_recipe
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.loss_scale import LossScale
from mtkit.training.update import RankRequests, Updater, UpdateResult

from .unigram import UnigramObjective

TOKENS = [0] * 16 + [1] * 8 + [2] * 8
BY_HAND = [-1 / 6, 1 / 12, 1 / 12]
"""Softmax of zeros minus frequency."""


def test_it_changes_as_torch_s_does() -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    theirs, ours = torch.amp.GradScaler("cpu"), LossScale.resume(0.0, 0)
    for number in range(4_300):
        overflows = number in {0, 1, 1_500, 3_600}
        weight.grad = torch.full((1,), math.inf if overflows else 1.0)
        theirs.scale(torch.ones(1))
        theirs.step(optimizer)
        theirs.update()
        ours = ours.after_overflow() if overflows else ours.after_update()
        assert ours.factor == theirs.get_scale(), number
    assert ours.factor == 2.0**13


class _Halves(UnigramObjective):
    """Passes in fp16."""

    def __init__(self) -> None:
        super().__init__(UnigramObjective.of(TOKENS, 3, batch_size=32).batches, 3)
        self.num_passes = 0

    def loss(self, batch: Tensor) -> LossSums:
        self.num_passes += 1
        logits = self._working(torch.ones(len(batch), 1, dtype=torch.float16))
        loss = nn.functional.cross_entropy(logits.float(), batch, reduction="sum")
        return LossSums(loss, loss.detach())

    def update(self, scale: LossScale) -> tuple[Learner, UpdateResult]:
        recipe = load_recipe("phrasebook-en-de")
        learner = Learner.of(self.model, recipe.training, precision="fp16")
        self._working = learner.working.model
        processes = ProcessGroup(0, 1, torch.device("cpu"))
        updater = Updater(
            recipe.training, self, learner, processes, seed=1, max_tokens_key="data.max_tokens"
        )
        update = self.batches.update(0, 0, 32)
        requests = RankRequests()
        return learner, updater.make(1, update, rate=0.1, requests=requests, loss_scale=scale)


@pytest.mark.parametrize("exponent", [0, 16, 18])
def test_gradients_are_those_of_the_loss_itself(exponent: int) -> None:
    halves = _Halves()
    learner, outcome = halves.update(LossScale(2.0**exponent, 7))
    gradient = learner.model.weight.grad.flatten().tolist()
    # fp16 keeps 11 bits.
    assert gradient == pytest.approx(BY_HAND, rel=2**-11)
    assert outcome.gradient_norm == pytest.approx(math.hypot(*BY_HAND), rel=2**-11)
    assert outcome.loss / 32 == pytest.approx(math.log(3.0), rel=1e-6)
    assert (outcome.loss_scale, halves.num_passes) == ((2.0**exponent, 8), 2)


def test_an_update_whose_gradients_overflow_is_repeated() -> None:
    halves = _Halves()
    learner, outcome = halves.update(LossScale(2.0**21, 7))
    # The larger pass has 29 tokens, 14 of the first kind: (29 / 3 - 14) / 32 of 2^19 is -70,997,
    # and fp16's largest number 65,504.
    assert (outcome.loss_scale, outcome.is_applied) == ((2.0**18, 1), True)
    assert halves.num_passes == 2 * 4
    gradient = learner.model.weight.grad.flatten().tolist()
    assert gradient == pytest.approx(BY_HAND, rel=2**-10)
    assert learner.num_updates == 1


def test_memory_that_runs_out_is_no_overflow() -> None:
    class Small(_Halves):
        def loss(self, batch: Tensor) -> LossSums:
            if not self.num_passes:
                self.num_passes += 1
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().loss(batch)

    small = Small()
    learner, outcome = small.update(LossScale(2.0**16, 7))
    assert (outcome.loss_scale, outcome.is_applied) == ((2.0**16, 8), True)
    gradient = learner.model.weight.grad.flatten().tolist()
    assert gradient == pytest.approx(BY_HAND, rel=2**-10)


def test_gradients_that_are_no_number_with_any_scale_are_skipped_and_the_scale_stays() -> None:
    class Broken(_Halves):
        def loss(self, batch: Tensor) -> LossSums:
            sums = super().loss(batch)
            # The root's gradient at 0 is infinite, and times 0 no number.
            return sums._replace(loss=sums.loss + torch.sqrt(sums.loss * 0.0))

    broken = Broken()
    learner, outcome = broken.update(LossScale(16.0, 7))
    assert math.isfinite(outcome.loss)
    assert (outcome.is_applied, outcome.loss_scale) == (False, (16.0, 7))
    # 16, 8, 4, 2, 1.
    assert broken.num_passes == 2 * 5
    assert learner.num_updates == 0
