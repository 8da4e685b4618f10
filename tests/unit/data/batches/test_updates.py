"""The updates of a training: order, cut, and what is loaded ahead."""

import numpy as np
import pytest
import torch

from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.updates import TrainingBatches, Update
from mtkit.data.prepare import prepare
from mtkit.data.prepared import open_prepared
from mtkit.training.distributed import ProcessGroup
from mtkit.training.objectives.stored import TranslationBatches
from mtkit.training.training_run import TrainingRun


class Letters(TrainingBatches[str]):
    """Examples of one token; epoch 0 has two updates, epoch 1 none, and all others one."""

    EPOCHS = ([[0, 1, 2, 3, 4], [5, 6]], [], [[7]])

    def __init__(self, **process: int) -> None:
        super().__init__(**process)
        self.gathered: list[str] = []

    @property
    def longest(self) -> int:
        return 1

    def plan_epoch(self, epoch: int) -> list[Indices]:
        return [np.array(examples) for examples in self.EPOCHS[min(epoch, 2)]]

    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        parts = np.array_split(examples, num_processes)
        cuts = [np.split(part, range(limit, len(part), limit)) for part in parts]
        return [[MicroBatch(one, limit, len(one), limit) for one in pieces] for pieces in cuts]

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        return {"text": np.ones_like(examples)}

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        return len(examples)

    def gather(self, micro_batch: MicroBatch, epoch: int) -> str:
        batch = "".join(chr(ord("a") + one) for one in micro_batch.sentences) + str(epoch)
        self.gathered.append(batch)
        return batch

    def largest(self, limit: int) -> str:
        return "z" * limit


def test_updates_follow_one_another_over_an_epoch_without_any() -> None:
    batches = Letters()
    place, seen = (0, 0), []
    for _ in range(4):
        update = batches.update(*place, 2)
        seen.append((update.epoch, update.position, list(update.batches())))
        place = update.following
    assert seen == [
        (0, 0, ["ab0", "cd0", "e0"]),
        (0, 1, ["fg0"]),
        (2, 0, ["h2"]),
        (3, 0, ["h3"]),
    ]


def test_a_process_takes_its_share_and_counts_everyones() -> None:
    update = Letters(rank=1, num_processes=2).update(0, 0, 2)
    assert list(update.batches()) == ["de0"]
    assert (update.num_target_tokens, update.num_tokens, update.num_slots) == (5, 5, 6)
    assert (update.largest, update.is_in_single_examples) == (2, False)
    assert Letters().update(0, 0, 1).is_in_single_examples


def test_what_was_prefetched_is_gathered_once() -> None:
    batches = Letters()
    first = batches.update(0, 0, 2)
    list(first.batches())
    batches.gathered.clear()
    batches.prefetch(first)
    assert batches.gathered == ["fg0"]
    assert list(batches.update(0, 1, 2).batches()) == ["fg0"]
    assert batches.gathered == ["fg0"]


@pytest.mark.parametrize("place", [(0, 0, 2), (2, 0, 2), (0, 1, 1)])
def test_what_was_prefetched_in_vain_is_let_go_of(place: tuple[int, int, int]) -> None:
    batches = Letters()
    batches.prefetch(batches.update(0, 0, 2))
    batches.gathered.clear()
    assert list(batches.update(*place).batches()) == batches.gathered
    batches.gathered.clear()
    list(batches.update(0, 1, 2).batches())
    assert batches.gathered == ["fg0"]


def test_batches_that_find_no_room_ahead_are_gathered_in_their_turn() -> None:
    class Full(Letters):
        is_full = True

        def gather(self, micro_batch: MicroBatch, epoch: int) -> str:
            if self.is_full and 2 in micro_batch.sentences:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().gather(micro_batch, epoch)

    batches = Full()
    before = Update(0, -1, False, 2, np.array([]), [], [], 0, str)
    with pytest.raises(torch.OutOfMemoryError):
        batches.prefetch(before)
    batches.is_full = False
    assert list(batches.update(0, 0, 2).batches()) == ["ab0", "cd0", "e0"]


@pytest.mark.parametrize("sampling", [(), ("tokenizer.sampling.alpha=0.3",)])
def test_a_translators_batches_hold_every_token_of_the_update(tiny_run, sampling) -> None:
    run = tiny_run(*sampling)
    if sampling:
        prepare(run.recipe, run.workspace)
    data = open_prepared(run.recipe, run.workspace)
    alone = ProcessGroup(0, 1, torch.device("cpu"))
    batches = TranslationBatches(
        TrainingRun(run.recipe, run.workspace, data), alone, dtype=torch.float32, packs=True
    )
    update = batches.update(1, 0, 128)
    found = list(update.batches())
    assert len(found) > 1
    assert sum(batch.target_outputs.numel() for batch in found) == update.num_target_tokens
    if not sampling:
        lengths = data.train.lengths(update.examples)
        assert update.num_target_tokens == lengths["target"].sum()
        assert update.num_tokens == lengths["source"].sum() + lengths["target"].sum()
        slots = sum(b.source_tokens.numel() + b.target_inputs.numel() for b in found)
        assert update.num_slots == slots
    # What is prefetched is what would be gathered.
    batches.prefetch(update)
    place = update.following
    ahead = list(batches.update(*place, 128).batches())
    again = list(batches.update(*place, 128).batches())
    for one, other in zip(ahead, again, strict=True):
        assert torch.equal(one.source_tokens, other.source_tokens)
        assert torch.equal(one.target_outputs, other.target_outputs)
