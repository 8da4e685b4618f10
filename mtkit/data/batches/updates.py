"""The updates of a training, one after the other: which examples, and what passes they come to."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from mtkit.data.batches.epoch import find_epoch
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices

Batch = TypeVar("Batch")
"""The input of an objective's loss, on its device."""


@dataclass(eq=False)
class Update(Generic[Batch]):
    """One update: its examples, cut into what each process passes through the model at once.

    Attributes:
        epoch: The epoch it belongs to.
        position: Updates of that epoch before this one.
        is_last: Whether the epoch ends with it.
        limit: Bound of one pass, in tokens a side.
        examples: All processes' examples.
        shares: Each process's micro-batches.
        micro_batches: Those of this process.
        num_target_tokens: Tokens that the loss is a sum over, in all processes.
        gather: Returns a micro-batch on the device.
    """

    epoch: int
    position: int
    is_last: bool
    limit: int
    examples: Indices
    shares: list[list[MicroBatch]]
    micro_batches: list[MicroBatch]
    num_target_tokens: int
    gather: Callable[[MicroBatch], Batch]
    _loaded: deque[Batch] = field(default_factory=deque, init=False)

    @property
    def num_tokens(self) -> int:
        """Real tokens of both sides, in all processes."""
        return sum(one.num_tokens for share in self.shares for one in share)

    @property
    def num_slots(self) -> int:
        """Those, and the padding."""
        return sum(one.num_slots for share in self.shares for one in share)

    @property
    def largest(self) -> int:
        """Tokens of the largest pass of any process: of its longer side, with padding."""
        return max(one.num_padded_tokens for share in self.shares for one in share)

    @property
    def is_in_single_examples(self) -> bool:
        """Whether no pass of any process has two examples, and so none can be cut."""
        return all(len(one.sentences) == 1 for share in self.shares for one in share)

    @property
    def following(self) -> tuple[int, int]:
        """Epoch and position of the update after this one; the epoch may turn out empty."""
        return (self.epoch + 1, 0) if self.is_last else (self.epoch, self.position + 1)

    def load(self) -> None:
        """Puts this process's batches on the device, for `batches` to find."""
        self._loaded = deque([self.gather(one) for one in self.micro_batches])

    def batches(self) -> Iterator[Batch]:
        """Yields this process's batches; one that wasn't loaded is gathered when its turn comes."""
        for micro_batch in self.micro_batches:
            yield self._loaded.popleft() if self._loaded else self.gather(micro_batch)


class TrainingBatches(ABC, Generic[Batch]):
    """Order and cut of a training's updates.

    A subclass knows the examples: in which order an epoch sees them, how an update is cut, and what
    a batch of them looks like. `training.batch_tokens` bounds the real tokens of an update on
    either side, in all processes together; the limit of a pass bounds those of one pass, with
    padding.
    """

    def __init__(self, *, rank: int = 0, num_processes: int = 1) -> None:
        self._rank = rank
        self._num_processes = num_processes
        # At an epoch's last update, the next epoch is looked at too.
        self._plan = lru_cache(maxsize=2)(self.plan_epoch)
        self._prefetched: Update[Batch] | None = None

    @property
    @abstractmethod
    def longest(self) -> int:
        """Tokens of the longest side that an example may have; the limit of a pass isn't lower."""

    @abstractmethod
    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the examples of each update of an epoch: a pure function of `epoch`."""

    @abstractmethod
    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""

    @abstractmethod
    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of each example by column of the store, [examples]."""

    @abstractmethod
    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns how many tokens the loss of these examples is a sum over in an epoch."""

    @abstractmethod
    def gather(self, micro_batch: MicroBatch, epoch: int) -> Batch:
        """Returns a micro-batch as it is in an epoch, on the device."""

    @abstractmethod
    def largest(self, limit: int) -> Batch:
        """Returns a made-up batch as large as any within the limit of a pass: a probe of memory."""

    def update(self, epoch: int, position: int, limit: int) -> Update[Batch]:
        """Returns the update at a position of an epoch, or of the next epoch that has any.

        `limit` bounds one pass, in tokens a side.
        """
        epoch = find_epoch(self._plan, first=epoch)
        if position >= len(self._plan(epoch)):
            # The epoch had more updates when training was stopped, with other settings.
            epoch, position = find_epoch(self._plan, first=epoch + 1), 0
        # Let go of in any case: on a GPU it may hold batches.
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None:
            found = prefetched.epoch, prefetched.position, prefetched.limit
            if found == (epoch, position, limit):
                return prefetched
        examples = self._plan(epoch)[position]
        shares = self.split(examples, self._num_processes, limit)
        return Update(
            epoch=epoch,
            position=position,
            is_last=position + 1 == len(self._plan(epoch)),
            limit=limit,
            examples=examples,
            shares=shares,
            micro_batches=shares[self._rank],
            # First: sampling draws the targets that it counts, and gathers those.
            num_target_tokens=self.count_target_tokens(examples, epoch),
            gather=lambda micro_batch: self.gather(micro_batch, epoch),
        )

    def prefetch(self, update: Update[Batch]) -> None:
        """Loads the update that follows one, for `update` to find, while a GPU is still at work."""
        self._prefetched = self.update(*update.following, update.limit)
        self._prefetched.load()
