"""One update: what it does where memory runs out or a number is missing."""

import math

import numpy as np
import pytest
import torch

from mtkit.data.batches.micro_batches import MicroBatch, split_update
from mtkit.data.batches.ragged import Indices
from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe
from mtkit.training.distributed import Processes
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.memory import is_out_of_memory
from mtkit.training.update import Meter, Outcome, Updater, Votes

from .unigram import UnigramObjective

TOKENS = [0] * 16 + [1] * 8 + [2] * 8
ALL = np.arange(32)


class SmallMemory(UnigramObjective):
    """Holds so many tokens at once; each example is one."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(TOKENS, 3, batch_size=32)
        self.num_tokens = num_tokens
        self.sizes: list[int] = []

    def split_update(
        self, examples: Indices, num_processes: int, *, micro_batch_tokens: int
    ) -> list[list[MicroBatch]]:
        pieces = np.split(examples, range(micro_batch_tokens, len(examples), micro_batch_tokens))
        return [[MicroBatch(piece, len(piece), len(piece), len(piece)) for piece in pieces]]

    def measure(self, micro_batch: MicroBatch, epoch: int) -> LossSums:
        size = len(micro_batch.sentences)
        self.sizes.append(size)
        if size > self.num_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().measure(micro_batch, epoch)

    def measure_largest(self, micro_batch_tokens: int) -> LossSums:
        tokens = np.resize(ALL, micro_batch_tokens)
        return self.measure(MicroBatch(tokens, len(tokens), len(tokens), len(tokens)), 0)


def build(objective: UnigramObjective, *overrides: str) -> tuple[Updater, Learner]:
    keys = ["data.cleaning.max_tokens=8", "training.batch_tokens=1024", *overrides]
    recipe = load_recipe("phrasebook-en-de", keys)
    learner = Learner.of(objective.model, recipe)
    processes = Processes(0, 1, torch.device("cpu"))
    return Updater(recipe, objective, learner, processes), learner


def update(updater: Updater, limit: int) -> Outcome:
    return updater.update(1, ALL, 0, rate=0.1, micro_batch_tokens=limit, votes=Votes())


def test_an_update_that_does_not_fit_is_made_in_smaller_passes(capsys) -> None:
    small = SmallMemory(10)
    updater, learner = build(small)
    outcome = update(updater, 32)
    assert small.sizes == [32, 16, 8, 8, 8, 8]
    assert (outcome.micro_batch_tokens, outcome.is_applied) == (8, True)
    assert (
        "step 1: out of memory: doing it again in micro-batches of 16 to" in capsys.readouterr().err
    )
    # The gradient of what did fit before memory ran out isn't counted twice: by hand, softmax
    # minus frequency.
    gradient = learner.model.weight.grad.flatten().tolist()
    assert gradient == pytest.approx([-1 / 6, 1 / 12, 1 / 12], rel=1e-6)
    assert outcome.loss / 32 == pytest.approx(math.log(3.0), rel=1e-6)


def test_one_sentence_that_does_not_fit_ends_training() -> None:
    updater, _ = build(SmallMemory(0))
    with pytest.raises(MtkitError, match="step 1: out of memory, in micro-batches as small as"):
        update(updater, 32)


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
    objective = SmallMemory(memory)
    updater, learner = build(objective, f"training.micro_batch_tokens={wanted}")
    before = learner.digest()
    assert updater.fit_micro_batch() == found
    assert learner.digest() == before
    assert learner.model.weight.grad is None


def test_not_even_one_sentence_fits() -> None:
    updater, _ = build(SmallMemory(7))
    with pytest.raises(MtkitError, match="out of memory with one sentence of 8 tokens a side"):
        updater.fit_micro_batch()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_changes_nothing(value: float) -> None:
    class Broken(UnigramObjective):
        def measure(self, micro_batch: MicroBatch, epoch: int) -> LossSums:
            sums = super().measure(micro_batch, epoch)
            return sums._replace(loss=sums.loss * value)

    updater, learner = build(Broken(TOKENS, 3, batch_size=32))
    before = [tensor.clone() for tensor in learner.tensors()]
    outcome = update(updater, 32)
    assert not outcome.is_applied
    assert all(map(torch.equal, learner.tensors(), before))
    assert learner.num_updates == 0


def test_what_memory_errors_look_like() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    # As torch's allocator words it on a processor.
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes don't match"))


def test_means_since_the_last_line() -> None:
    meter = Meter()
    outcome = Outcome(30.0, 20.0, 10, 18, 24, 0.5, True, 64, Votes())
    meter.add(outcome)
    meter.add(outcome._replace(loss=6.0, negative_log_likelihood=4.0, num_target_tokens=2))
    # One that was left out: only its padding counts.
    meter.add(outcome._replace(loss=math.nan, is_applied=False, gradient_norm=math.nan))
    measured = meter.measure()
    assert measured["loss"] == pytest.approx(36.0 / 12)
    assert measured["nll"] == pytest.approx(24.0 / 12)
    assert measured["perplexity"] == pytest.approx(math.exp(2.0))
    assert measured["padding"] == pytest.approx(1 - 54 / 72)
    assert measured["gradient_norm"] == 0.5


def test_cuts_that_get_no_smaller_end_training() -> None:
    lengths = np.array([200] + [20] * 40 + [100] * 3)

    class Full(UnigramObjective):
        def split_update(
            self, examples: Indices, num_processes: int, *, micro_batch_tokens: int
        ) -> list[list[MicroBatch]]:
            return split_update(
                examples,
                lengths[examples],
                lengths[examples],
                micro_batch_tokens=micro_batch_tokens,
                num_processes=num_processes,
            )

        def measure(self, micro_batch: MicroBatch, epoch: int) -> LossSums:
            raise torch.OutOfMemoryError("CUDA out of memory: another program has it all")

    updater, _ = build(Full([0] * len(lengths), 3, batch_size=len(lengths)))
    examples = np.arange(len(lengths))
    with pytest.raises(MtkitError, match="as small as its longest sentence") as caught:
        updater.update(1, examples, 0, rate=0.1, micro_batch_tokens=8_192, votes=Votes())
    assert "see what else takes the memory" in caught.value.hint
