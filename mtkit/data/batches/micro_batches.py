"""Cuts an update, or a development set, into what passes through the model at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.rows import WIDTH_STEP, count_width, fill_rows

SHARE_SLACK = 1.15
"""How much larger than a process's fair share a micro-batch may be. Without slack, a group slightly
above the mean would cause a second pass with a few sentences."""
_GRIDS_PER_PASS = 2
"""Fixed cost of a pass, in grids. On one core a grid costs 430 tokens for a model with 4+4 layers
of width 128, and 120 for the paper's base."""
_ROW_STEPS = 12
"""Minimum number of steps in a row, so that padding averages at most 1/24 of it."""
_SENTENCES_AT_ONCE = 16
_BOUNDS_AT_ONCE = 32
_IMPOSSIBLE = 1 << 48
_WIDTH_FACTOR = 2
"""Coarser widths of packed rows for CUDA graphs: about 18 shapes, 9 % padding (docs/log.md)."""


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that one process passes through the model together.

    Attributes:
        sentences: Indices, ordered by grid; a grid's sentences are padded to one length.
        num_padded_tokens: Tokens of the larger side, with padding.
        num_tokens: Tokens of both sides, without padding.
        num_slots: Tokens of both sides, with padding.
        grid_sizes: Sentences of each grid or packed row; if empty, there is one grid or, packed, a
            row for each sentence.
        row_step: Each side or packed row is padded to a multiple of it, which `num_slots` includes.
    """

    sentences: Indices
    num_padded_tokens: int
    num_tokens: int
    num_slots: int
    grid_sizes: tuple[int, ...] = ()
    row_step: int = 1


def split_update(
    sentences: Indices,
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    micro_batch_tokens: int,
    num_processes: int,
    grid_slots: int = 0,
    row_step: int = 1,
) -> list[list[MicroBatch]]:
    """Returns each process's micro-batches of one update; a process may get none.

    The update keeps its order from `plan_epoch`, where neighbours are alike. It is cut into grids
    with minimal padding and overhead. Micro-batches are made of grids and hold at most
    `micro_batch_tokens` per side, padding included. With several processes, there are two options,
    and the one whose slowest process is faster wins: assign the whole update's grids, largest
    first, each to the process with the fewest tokens; or cut the update evenly first.

    `grid_slots` is the fixed cost of a grid in tokens. Each side of a micro-batch is padded to a
    power of two of at most `row_step` and at most 1/12 of a process's share.
    """
    update = _Stretch(sentences, source_lengths, target_lengths, grid_slots)

    longest_row = int(update.longer.sum()) // num_processes
    step = 1 << max(min(row_step, longest_row // _ROW_STEPS), 1).bit_length() - 1

    def join(grids: Sequence[_Grid]) -> list[MicroBatch]:
        return _join(grids, micro_batch_tokens, step)

    if num_processes == 1:
        return [join(update.cut(micro_batch_tokens))]
    share = int(update.longer.sum() / num_processes * SHARE_SLACK)
    grids = update.cut(min(micro_batch_tokens, share), min_grids=num_processes)
    dealt = [join(part) for part in _deal(grids, num_processes)]
    lengths = source_lengths + target_lengths
    middles = np.cumsum(lengths) - lengths / 2
    bounds = np.searchsorted(middles, np.arange(1, num_processes) * lengths.sum() / num_processes)
    shares = [
        join(update.take(part).cut(micro_batch_tokens)) if len(part) else []
        for part in np.split(np.arange(len(sentences)), bounds)
    ]
    return min(dealt, shares, key=lambda parts: _max_load(parts, grid_slots))


@dataclass(frozen=True)
class _Grid:
    """Sentences padded to one length; slots are tokens with padding."""

    sentences: Indices
    num_tokens: int
    num_source_slots: int
    num_target_slots: int

    @property
    def num_padded_tokens(self) -> int:
        return max(self.num_source_slots, self.num_target_slots)


@dataclass(frozen=True)
class _Stretch:
    """Neighbouring sentences of an update; for `grid_slots` see `split_update`."""

    sentences: Indices
    source_lengths: Indices
    target_lengths: Indices
    grid_slots: int

    @property
    def longer(self) -> Indices:
        """Tokens of each sentence's longer side."""
        return np.maximum(self.source_lengths, self.target_lengths)

    def take(self, positions: Indices) -> "_Stretch":
        return _Stretch(
            self.sentences[positions],
            self.source_lengths[positions],
            self.target_lengths[positions],
            self.grid_slots,
        )

    def cut(self, bound: int, *, min_grids: int = 1) -> list[_Grid]:
        """Returns its grids, largest first."""
        longer = self.longer
        total = int(longer.sum())
        bound = max(bound, int(longer.max()))
        # The search is quadratic, so a large update is split first.
        num_stretches = -(-total // (_BOUNDS_AT_ONCE * bound))
        ends = np.arange(1, num_stretches) * total / num_stretches
        bounds = np.searchsorted(np.cumsum(longer), ends)
        grids = []
        for stretch in np.split(np.arange(len(longer)), bounds):
            cuts = _choose_cuts(
                self.source_lengths[stretch],
                self.target_lengths[stretch],
                bound=bound,
                min_pieces=-(-min_grids // num_stretches),
                piece_cost=self.grid_slots,
            )
            grids += [self.take(piece).pad() for piece in np.split(stretch, cuts)]
        return sorted(grids, key=lambda grid: -grid.num_padded_tokens)

    def pad(self) -> _Grid:
        source, target, count = self.source_lengths, self.target_lengths, len(self.sentences)
        return _Grid(
            self.sentences,
            int(source.sum() + target.sum()),
            int(source.max()) * count,
            int(target.max()) * count,
        )


def split_packed_update(
    sentences: Indices,
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    micro_batch_tokens: int,
    num_processes: int,
    rows_multiple: int = 0,
) -> list[list[MicroBatch]]:
    """Returns each process's micro-batches of one update, packed in rows (`fill_rows`).

    Each micro-batch holds at most `micro_batch_tokens` on its longer side, without padding; a
    single sentence may be longer. There are as few as possible, the same number for each process,
    and as even as sentences allow. The number of rows is a multiple of `rows_multiple` unless it is
    0.
    """
    longer = np.maximum(source_lengths, target_lengths)
    ends = np.cumsum(longer)
    widest = max(micro_batch_tokens, int(longer.max()))
    enough = num_processes * -(-(len(_fill(ends, widest)) + 1) // num_processes)
    # The lowest bound that needs no more of them makes them most even.
    narrowest = max(int(longer.max()), -(-int(ends[-1]) // enough))
    while narrowest < widest:
        bound = (narrowest + widest) // 2
        if len(_fill(ends, bound)) < enough:
            widest = bound
        else:
            narrowest = bound + 1
    bounds = _fill(ends, widest)
    micro_batches = []
    width_step = WIDTH_STEP * (_WIDTH_FACTOR if rows_multiple else 1)
    for stretch in np.split(np.arange(len(sentences)), bounds):
        sides = source_lengths[stretch], target_lengths[stretch]
        order, sizes = fill_rows(*sides, rows_multiple=rows_multiple)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        slots = [
            len(sizes) * count_width(np.bincount(rows, side[order]).max(), width_step)
            for side in sides
        ]
        micro_batches.append(
            MicroBatch(
                sentences[stretch][order],
                max(int(side.sum()) for side in sides),
                sum(int(side.sum()) for side in sides),
                sum(slots),
                tuple(sizes.tolist()),
                width_step,
            )
        )
    return _deal(micro_batches, num_processes)


def _fill(ends: Indices, bound: int) -> list[int]:
    """Returns the starts of full stretches after the first; `ends` are cumulative tokens."""
    starts: list[int] = []
    before = 0
    while before + bound < ends[-1]:
        starts.append(int(np.searchsorted(ends, before + bound, side="right")))
        before = int(ends[starts[-1] - 1])
    return starts


def _join(grids: Sequence[_Grid], bound: int, row_step: int) -> list[MicroBatch]:
    """Returns micro-batches, each grid in the first one that it fits into."""
    members: list[list[_Grid]] = []
    for grid in grids:
        for part in members:
            if max(_count_slots([*part, grid])) <= bound:
                part.append(grid)
                break
        else:
            members.append([grid])
    return [
        MicroBatch(
            np.concatenate([grid.sentences for grid in part]),
            max(_count_slots(part)),
            sum(grid.num_tokens for grid in part),
            sum(-(-slots // row_step) * row_step for slots in _count_slots(part)),
            tuple(len(grid.sentences) for grid in part),
            row_step,
        )
        for part in members
    ]


def _count_slots(grids: Sequence[_Grid]) -> tuple[int, int]:
    """Returns source and target tokens, with padding."""
    return sum(grid.num_source_slots for grid in grids), sum(
        grid.num_target_slots for grid in grids
    )


def _max_load(processes: list[list[MicroBatch]], grid_slots: int) -> int:
    """Returns the load of the slowest process, in tokens of both sides with padding."""
    return max(
        sum(one.num_slots + (_GRIDS_PER_PASS + len(one.grid_sizes)) * grid_slots for one in part)
        for part in processes
    )


_Dealt = TypeVar("_Dealt", MicroBatch, _Grid)


def _deal(pieces: Sequence[_Dealt], num_processes: int) -> list[list[_Dealt]]:
    """Returns each process's pieces, each assigned to the process with the fewest tokens."""
    processes: list[list[_Dealt]] = [[] for _ in range(num_processes)]
    load = [0] * num_processes
    for piece in sorted(pieces, key=lambda piece: -piece.num_padded_tokens):
        lightest = load.index(min(load))
        processes[lightest].append(piece)
        load[lightest] += piece.num_padded_tokens
    return processes


def _choose_cuts(
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    bound: int,
    min_pieces: int,
    piece_cost: int,
) -> Indices:
    """Returns the starts of pieces after the first, in the best cut between blocks."""
    starts = _block_starts(source_lengths, target_lengths, bound)
    num_blocks = len(starts)
    costs = _piece_costs(
        source_lengths[starts],
        target_lengths[starts],
        np.diff(starts, append=len(source_lengths)),
        bound,
    )
    min_possible = int(source_lengths.sum() + target_lengths.sum())
    widths = np.arange(1, costs.shape[1] + 1)
    # A piece of w blocks that ends after block b begins after block b - w, but not before 0.
    begins = np.maximum(np.arange(1, num_blocks + 1)[:, None] - widths, 0)
    lowest = np.full(num_blocks + 1, _IMPOSSIBLE)
    lowest[0] = 0
    widths_by_count: list[Indices] = []
    best, best_count = 2 * _IMPOSSIBLE, 0
    # While one more piece may be worth its cost. Dynamic programming: the cut of the first blocks
    # into k pieces with the least padding, for k = 1, 2, ...
    while (
        best > min_possible + (len(widths_by_count) + 1) * piece_cost
        and len(widths_by_count) < num_blocks
    ):
        totals = lowest[begins] + costs
        choice = totals.argmin(axis=1)
        widths_by_count.append(choice + 1)
        lowest[1:] = np.minimum(totals[np.arange(num_blocks), choice], _IMPOSSIBLE)
        lowest[0] = _IMPOSSIBLE
        count = len(widths_by_count)
        total = int(lowest[-1]) + count * piece_cost
        if total < best and count >= min(min_pieces, num_blocks):
            best, best_count = total, count
    cuts = []
    end = num_blocks
    # Backwards from the last piece; the first piece's start isn't a cut.
    for chosen in widths_by_count[1:best_count][::-1]:
        end -= int(chosen[end - 1])
        cuts.append(starts[end])
    return np.array(cuts[::-1], dtype=np.int64)


def _block_starts(source_lengths: Indices, target_lengths: Indices, bound: int) -> Indices:
    """Returns the starts of blocks: a few sentences of exactly the same lengths."""
    num_sentences = len(source_lengths)
    differs = (np.diff(source_lengths) != 0) | (np.diff(target_lengths) != 0)
    runs = np.cumsum(np.append(0, differs))
    run_starts = np.append(0, np.flatnonzero(differs) + 1)
    longer = np.maximum(source_lengths, target_lengths)
    sizes = np.minimum(_SENTENCES_AT_ONCE, bound // longer)
    starts: Indices = np.flatnonzero((np.arange(num_sentences) - run_starts[runs]) % sizes == 0)
    return starts


def _piece_costs(
    source_lengths: Indices, target_lengths: Indices, sizes: Indices, bound: int
) -> Indices:
    """Returns padded tokens of each piece that fits, both sides, [last block, blocks - 1]."""
    num_blocks = len(sizes)
    ends = np.cumsum(np.maximum(source_lengths, target_lengths) * sizes)
    begins = np.append(0, ends[:-1])
    # Wider pieces don't fit even without padding.
    max_width = int((np.arange(num_blocks) - np.searchsorted(begins, ends - bound)).max()) + 1
    blocks = np.arange(num_blocks)[:, None] - np.arange(max_width)
    exists = blocks >= 0
    blocks = np.maximum(blocks, 0)
    source = np.maximum.accumulate(source_lengths[blocks], axis=1)
    target = np.maximum.accumulate(target_lengths[blocks], axis=1)
    num_sentences = np.cumsum(sizes[blocks], axis=1)
    fits = exists & (np.maximum(source, target) * num_sentences <= bound)
    costs: Indices = np.where(fits, (source + target) * num_sentences, _IMPOSSIBLE)
    return costs


def cut_micro_batches(
    order: Indices, source_lengths: Indices, target_lengths: Indices, *, max_tokens: int
) -> list[Indices]:
    """Returns `order` in pieces of at most `max_tokens` real tokens per side, or one sentence."""
    ends = [np.cumsum(lengths[order]) for lengths in (source_lengths, target_lengths)]
    pieces = []
    first = 0
    while first < len(order):
        before = [side[first - 1] if first else 0 for side in ends]
        lasts = [
            np.searchsorted(side, start + max_tokens, side="right")
            for side, start in zip(ends, before, strict=True)
        ]
        last = max(int(min(lasts)), first + 1)
        pieces.append(order[first:last])
        first = last
    return pieces
