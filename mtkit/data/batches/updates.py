"""The updates of a training in order: their examples, and the passes they are cut into.

An update's sentences are a pure function of lengths, weights, seed and epoch. They don't depend on
how many processes share the update or what fits into one pass; only the cut into micro-batches
does. Nothing here has an entry per sentence: positions are computed on demand.

An epoch is a line of draws from the strata (sentences of one target length, source length and
corpus; a block of text in one language has one length, used for both). A stratum of n pairs whose
corpus has the weight p/q has an endless row of draws: its n pairs in a fixed random order, over and
over. Epochs 0 to e - 1 have taken floor((e * n * p + r) / q) draws of that row, with r drawn from
[0, q) once per stratum; epoch e takes those from there to the start of epoch e + 1. So after any
number of epochs two pairs of a stratum were seen equally often, plus or minus one, and an epoch
takes n * p / q of them, rounded up or down at random. With weight 1, that is every pair once.

On the line, target lengths rise. Source lengths rise at one target length and fall at the next, so
that neighbours are alike on both sides. The draws of one length class (target and source length)
are shuffled again in each epoch. The line is cut into groups, the groups are shuffled, and each
update takes some.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.permutation import Keys, derive_keys, permute, scale_keys
from mtkit.data.batches.ragged import Indices, join_ranges

_PAIR_STREAM, _OFFSET_STREAM, _CLASS_STREAM, _GROUP_STREAM = range(4)
_MAX_DENOMINATOR = 1_000_000


def plan_epoch(
    order: LengthOrder,
    *,
    weights: Sequence[float],
    batch_tokens: int,
    length_groups: int,
    seed: int,
    epoch: int,
    first_row: int = 0,
) -> "EpochPlan":
    """Returns the sentences of each update of one epoch.

    Groups hold at most batch_tokens / length_groups real tokens per side; an update takes
    `length_groups` of them. `weights` say how often an epoch sees each pair of a corpus (0.5 is
    every other epoch), to six decimals. Rows are numbered from `first_row`.
    """
    line = _Line(order, weights, seed, epoch)
    starts = _cut_line(
        line.class_counts,
        line.class_source_lengths,
        line.class_target_lengths,
        max_tokens=batch_tokens // length_groups,
    )
    generator = np.random.Generator(np.random.PCG64([_GROUP_STREAM, seed, epoch]))
    shuffled = generator.permutation(len(starts) - 1)
    return EpochPlan(line, starts, shuffled, length_groups, first_row)


def find_epoch(plan: Callable[[int], Sized], *, first: int = 0) -> int:
    """Returns the first epoch from `first` on that has updates; with low weights some have none."""
    return next(epoch for epoch in itertools.count(first) if len(plan(epoch)))


@dataclass(frozen=True, eq=False)
class EpochPlan(Sequence[Indices]):
    """The sentences of each update, computed on demand, in the order that `split_update` needs."""

    _line: "_Line"
    _starts: Indices
    _shuffled: Indices
    _length_groups: int
    _first_row: int

    def take(self, num_updates: int) -> "EpochPlan":
        """Returns the first `num_updates` updates, or all if there are fewer."""
        return replace(self, _shuffled=self._shuffled[: num_updates * self._length_groups])

    @property
    def num_pairs(self) -> int:
        """Pairs that the epoch sees, repeated ones counted each time."""
        return int(self._line.class_counts.sum())

    @property
    def num_source_tokens(self) -> int:
        """Source tokens that the epoch sees, `</s>` counted."""
        return int(self._line.class_counts @ self._line.class_source_lengths)

    @property
    def num_target_tokens(self) -> int:
        """Target tokens that the epoch sees, `</s>` counted."""
        return int(self._line.class_counts @ self._line.class_target_lengths)

    @property
    def length_classes(self) -> tuple[Indices, Indices, Indices]:
        """Number of pairs, source length and target length of each length class."""
        line = self._line
        return line.class_counts, line.class_source_lengths, line.class_target_lengths

    def __len__(self) -> int:
        return math.ceil(len(self._shuffled) / self._length_groups)

    @overload
    def __getitem__(self, update: int) -> Indices: ...

    @overload
    def __getitem__(self, update: slice) -> list[Indices]: ...

    def __getitem__(self, update: int | slice) -> Indices | list[Indices]:
        """Returns the rows of one update's sentences; a slice's one by one."""
        if isinstance(update, slice):
            return [self[number] for number in range(*update.indices(len(self)))]
        first = range(len(self))[update] * self._length_groups
        groups = np.sort(self._shuffled[first : first + self._length_groups])
        starts = self._starts[groups]
        positions = join_ranges(starts, self._starts[groups + 1] - starts)
        return self._first_row + self._line.draw(positions)


class StagedEpochs:
    """The epochs of a training in stages: the last epoch of a stage ends with its last update.

    A stage is a number of updates, None for all that follow, and what plans an epoch of it. Epochs
    are numbered through all stages.
    """

    def __init__(self, stages: Sequence[tuple[int | None, Callable[[int], EpochPlan]]]) -> None:
        self._stages = [stage for stage in stages if stage[0] != 0]
        # The stage of each epoch that was counted so far, and its updates in earlier epochs.
        self._begun = [(0, 0)]

    def plan(self, epoch: int) -> EpochPlan:
        """Returns an epoch's updates; those of earlier epochs are counted first."""
        for earlier in range(len(self._begun) - 1, epoch):
            stage, done = self._begun[earlier]
            count, plan = self._stages[stage]
            if count is None:
                break
            done += len(plan(earlier))
            self._begun.append((stage, done) if done < count else (stage + 1, 0))
        stage, done = self._begun[min(epoch, len(self._begun) - 1)]
        count, plan = self._stages[stage]
        return plan(epoch) if count is None else plan(epoch).take(count - done)


class _Line:
    """All draws of an epoch in order of length; a class is one source and target length."""

    def __init__(self, order: LengthOrder, weights: Sequence[float], seed: int, epoch: int) -> None:
        self._rows = order.rows
        strata = order.strata[_line_up(order.strata)]
        target_lengths, source_lengths = _lengths(strata)
        self._firsts, self._sizes = strata["first"].copy(), strata["count"].copy()
        self._pair_keys = derive_keys(_PAIR_STREAM, seed, count=len(strata))
        offset_keys = derive_keys(_OFFSET_STREAM, seed, count=len(strata))
        shares = _shares(weights, strata["corpus"])
        self._taken = _draws_before(epoch, self._sizes, shares, offset_keys)
        counts = _draws_before(epoch + 1, self._sizes, shares, offset_keys) - self._taken
        self._stratum_starts = np.cumsum(counts) - counts

        lengths = np.stack((target_lengths, source_lengths))
        is_new = np.append(True, (lengths[:, 1:] != lengths[:, :-1]).any(axis=0))[: len(strata)]
        heads = np.flatnonzero(is_new)
        self.class_target_lengths, self.class_source_lengths = lengths[:, heads]
        self.class_counts = np.add.reduceat(counts, heads) if len(heads) else counts
        self._class_starts = self._stratum_starts[heads]
        self._class_keys = derive_keys(_CLASS_STREAM, seed, epoch, count=len(heads))

    def draw(self, positions: Indices) -> Indices:
        """Returns the rows at positions of the line."""
        classes = np.searchsorted(self._class_starts, positions, side="right") - 1
        starts = self._class_starts[classes]
        shuffled = starts + permute(
            positions - starts, self.class_counts[classes], self._class_keys[classes]
        )
        strata = np.searchsorted(self._stratum_starts, shuffled, side="right") - 1
        draws = self._taken[strata] + shuffled - self._stratum_starts[strata]
        sizes = self._sizes[strata]
        pairs = permute(draws % sizes, sizes, self._pair_keys[strata])
        rows: Indices = self._rows[self._firsts[strata] + pairs].astype(np.int64)
        return rows


def _line_up(strata: NDArray[np.void]) -> Indices:
    """Returns the order of strata on the line."""
    target_lengths, source_lengths = _lengths(strata)
    _, ranks = np.unique(target_lengths, return_inverse=True)
    rising = np.where(ranks % 2 == 0, source_lengths, -source_lengths)
    return np.lexsort((strata["corpus"], rising, target_lengths))


def _lengths(strata: NDArray[np.void]) -> tuple[Indices, Indices]:
    """Returns each stratum's target and source length; text has one, used for both."""
    names = [name for name in strata.dtype.names or () if name.endswith("_length")]
    return strata[names[0]], strata[names[-1]]


def _shares(weights: Sequence[float], corpora: Indices) -> tuple[Indices, Indices]:
    """Returns numerator and denominator of each stratum's weight."""
    if len(corpora) and len(weights) <= corpora.max():
        raise ValueError(f"{len(weights)} weights for {corpora.max() + 1} corpora")
    fractions = [Fraction(weight).limit_denominator(_MAX_DENOMINATOR) for weight in weights]
    numerators = np.array([fraction.numerator for fraction in fractions], dtype=np.int64)[corpora]
    denominators = np.array([fraction.denominator for fraction in fractions])[corpora]
    if len(corpora) and (min(fractions) < 0 or not numerators.any()):
        raise ValueError(f"weights {list(weights)}: none may be negative, nor all be 0")
    return numerators, denominators


def _draws_before(
    epoch: int, sizes: Indices, shares: tuple[Indices, Indices], keys: Keys
) -> Indices:
    """Returns the draws from each stratum in all epochs before `epoch`."""
    numerators, denominators = shares
    # Pairs times weight, split so that the product with the epoch stays far below 2^63.
    whole, rest = np.divmod(sizes * numerators, denominators)
    offsets = scale_keys(keys, denominators)
    drawn: Indices = epoch * whole + (epoch * rest + offsets) // denominators
    return drawn


def _cut_line(
    counts: Indices, source_lengths: Indices, target_lengths: Indices, *, max_tokens: int
) -> Indices:
    """Returns the bounds of groups with at most `max_tokens` per side, or one sentence."""
    starts: list[Indices] = []
    position = source_room = target_room = 0
    for count, source_length, target_length in zip(
        counts.tolist(), source_lengths.tolist(), target_lengths.tolist(), strict=True
    ):
        # Room in the current group; there is none before the first class.
        fitting = min(source_room // max(source_length, 1), target_room // max(target_length, 1))
        left = count - min(count, max(fitting, 0))
        if left:
            size = max(max_tokens // max(source_length, target_length, 1), 1)
            starts.append(np.arange(position + count - left, position + count, size))
            source_room = target_room = max_tokens
            left -= size * (len(starts[-1]) - 1)
        else:
            left = count
        source_room -= left * source_length
        target_room -= left * target_length
        position += count
    return np.concatenate([*starts, [position]]).astype(np.int64)


Batch = TypeVar("Batch")
"""The input of an objective's loss, on its device."""


@dataclass(eq=False)
class Update(Generic[Batch]):
    """One update: its examples, cut into what each process passes through the model at once.

    Attributes:
        position: Updates of that epoch before this one.
        limit: Maximum tokens per side of one pass.
        examples: All processes' examples.
        shares: Each process's micro-batches; `micro_batches` are this process's.
        num_target_tokens: Tokens that the loss is summed over, in all processes; with
            `num_drawn_tokens` an estimate.
        num_drawn_tokens: Those of this process's share, if each process draws its own targets.
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
    num_drawn_tokens: int | None = None
    _loaded: deque[Batch] = field(default_factory=deque, init=False)

    @property
    def num_tokens(self) -> int:
        """Real tokens of both sides, in all processes."""
        return sum(one.num_tokens for share in self.shares for one in share)

    @property
    def num_slots(self) -> int:
        """Tokens of both sides with padding, in all processes."""
        return sum(one.num_slots for share in self.shares for one in share)

    @property
    def largest(self) -> int:
        """Tokens of the largest pass of any process: its longer side, with padding."""
        return max(one.num_padded_tokens for share in self.shares for one in share)

    @property
    def is_in_single_examples(self) -> bool:
        """Whether each pass of each process has one example, so that none can be cut."""
        return all(len(one.sentences) == 1 for share in self.shares for one in share)

    @property
    def following(self) -> tuple[int, int]:
        """Epoch and position of the next update; that epoch may turn out to be empty."""
        return (self.epoch + 1, 0) if self.is_last else (self.epoch, self.position + 1)

    def load(self) -> None:
        """Puts this process's batches on the device ahead of `batches`."""
        self._loaded = deque([self.gather(one) for one in self.micro_batches])

    def batches(self) -> Iterator[Batch]:
        """Yields this process's batches; gathers those that weren't loaded."""
        for micro_batch in self.micro_batches:
            yield self._loaded.popleft() if self._loaded else self.gather(micro_batch)


class TrainingBatches(ABC, Generic[Batch]):
    """Order and cut of a training's updates; subclasses know the examples.

    `training.batch_tokens` bounds the real tokens of an update per side, in all processes together.
    The limit of a pass bounds those of one pass, per side too, with padding.

    Attributes:
        sides_in_a_row: 2 if a row of a pass has both sides of a pair, one after the other.
    """

    sides_in_a_row = 1

    def __init__(self, *, rank: int = 0, num_processes: int = 1) -> None:
        self._rank = rank
        self._num_processes = num_processes
        # The last update of an epoch needs the next epoch's plan too.
        self._plan = lru_cache(maxsize=2)(self.plan_epoch)
        self._prefetched: Update[Batch] | None = None

    @property
    @abstractmethod
    def longest(self) -> int:
        """Maximum tokens of an example's longer side; the limit of a pass isn't lower."""

    @abstractmethod
    def plan_epoch(self, epoch: int) -> Sequence[Indices]:
        """Returns the examples of each update; a pure function of `epoch`."""

    @abstractmethod
    def split(self, examples: Indices, num_processes: int, limit: int) -> list[list[MicroBatch]]:
        """Returns each process's micro-batches of one update, within the limit of a pass."""

    @abstractmethod
    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of each example by column of the store, [examples]."""

    @abstractmethod
    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns how many tokens the loss of these examples is summed over in an epoch."""

    @property
    def draws_targets(self) -> bool:
        """Whether each epoch draws its targets, which takes long."""
        return False

    @abstractmethod
    def gather(self, micro_batch: MicroBatch, epoch: int) -> Batch:
        """Returns a micro-batch as it is in an epoch, on the device."""

    @abstractmethod
    def largest(self, limit: int) -> Batch:
        """Returns a dummy batch of the maximum size within the limit of a pass, to probe memory."""

    def update(self, epoch: int, position: int, limit: int) -> Update[Batch]:
        """Returns the update at a position, or the first of the next epoch that has any."""
        epoch = find_epoch(self._plan, first=epoch)
        if position >= len(self._plan(epoch)):
            # The epoch had more updates when training was stopped, with other settings.
            epoch, position = find_epoch(self._plan, first=epoch + 1), 0
        # Dropped in any case, because it may hold batches on a GPU.
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None:
            found = prefetched.epoch, prefetched.position, prefetched.limit
            if found == (epoch, position, limit):
                return prefetched
        examples = self._plan(epoch)[position]
        shares = self.split(examples, self._num_processes, limit)
        # Before any gather: sampling draws the targets that it counts, and gather reuses them.
        num_drawn = None
        if self.draws_targets and self._num_processes > 1:
            own = [micro_batch.sentences for micro_batch in shares[self._rank]]
            num_drawn = self.count_target_tokens(np.concatenate(own), epoch) if own else 0
            num_target_tokens = int(self.lengths(examples)["target"].sum())
        else:
            num_target_tokens = self.count_target_tokens(examples, epoch)
        return Update(
            epoch=epoch,
            position=position,
            is_last=position + 1 == len(self._plan(epoch)),
            limit=limit,
            examples=examples,
            shares=shares,
            micro_batches=shares[self._rank],
            num_target_tokens=num_target_tokens,
            gather=lambda micro_batch: self.gather(micro_batch, epoch),
            num_drawn_tokens=num_drawn,
        )

    def prefetch(self, update: Update[Batch]) -> None:
        """Loads the update after this one while the GPU is busy; `update` returns it later."""
        self._prefetched = self.update(*update.following, update.limit)
        self._prefetched.load()
