"""Assigns sentences to the rows of a packed batch, so that rows are even and padding is small."""

import numpy as np

from mtkit.data.batches.ragged import Indices

_WIDTHS = (126, 158, 190, 254)
"""Row widths to try: slightly below a multiple of 32, because the fullest row gets more."""
_ATTENTION_COST = 1_000
"""Width at which attention counts as much as the rest of a pass. A base model's attention at width
128 took 7.6 of 42 ms on an H200: 600 would be closer, with 1 % more padding (docs/log.md)."""
_NUM_STEPS = 16
"""Different numbers of rows up to a full pass, where passes come in few shapes."""
WIDTH_STEP = 8
"""GPUs multiply rows of a multiple of this width fastest, and read their masks without a copy."""


def fill_rows(
    source_lengths: Indices, target_lengths: Indices, *, rows_multiple: int = 0
) -> tuple[Indices, Indices]:
    """Returns sentences in the order of their rows, and how many each row has.

    A pair has the same row on both sides. All rows of a side are as wide as the fullest, so they
    are filled evenly. If `rows_multiple` isn't 0, the number of rows is a multiple of it and only
    the narrowest width is tried.
    """
    longer = np.maximum(source_lengths, target_lengths)
    total = max(int(source_lengths.sum()), int(target_lengths.sum()))
    best, lowest = None, np.inf
    for width in _WIDTHS[:1] if rows_multiple else _WIDTHS:
        num_rows = -(-total // max(width, int(longer.max())))
        num_rows = -(-num_rows // max(rows_multiple, 1)) * max(rows_multiple, 1)
        rows = _deal(source_lengths, target_lengths, num_rows)
        widths = [
            count_width(np.bincount(rows, side).max()) for side in (source_lengths, target_lengths)
        ]
        cost = num_rows * sum(widths) * (1 + max(widths) / _ATTENTION_COST)
        if cost < lowest:
            best, lowest = (rows, num_rows), cost
    assert best is not None
    rows, num_rows = best
    return np.argsort(rows, kind="stable"), np.bincount(rows, minlength=num_rows)


def choose_rows_multiple(pass_tokens: int) -> int:
    """Returns a multiple for the number of rows, so that passes come in few shapes."""
    return -(-pass_tokens // (_WIDTHS[0] * _NUM_STEPS))


def count_width(num_tokens: float, step: int = WIDTH_STEP) -> int:
    """Returns the width of rows whose fullest has `num_tokens`."""
    return -(-int(num_tokens) // step) * step


def _deal(source_lengths: Indices, target_lengths: Indices, num_rows: int) -> Indices:
    """Returns each sentence's row.

    The longest sentences are dealt first, in rounds: one to each row that has room for the longest
    of the round.
    """
    longer, surplus = np.maximum(source_lengths, target_lengths), source_lengths - target_lengths
    order = np.argsort(-longer, kind="stable")
    loads, rows = np.zeros((2, num_rows), dtype=np.int64), np.empty_like(order)
    limit = max(source_lengths.sum(), target_lengths.sum()) / num_rows
    first = 0
    while first < len(order):
        fullest, longest = loads.max(axis=0), longer[order[first]]
        open_rows = np.flatnonzero(fullest + longest <= limit)
        if not len(open_rows):
            limit = fullest.min() + longest
            continue
        dealt = order[first : first + len(open_rows)]
        first += len(dealt)
        # In the last round the emptiest rows come first. The pair with the largest source surplus
        # goes to the row with the largest target surplus.
        open_rows = open_rows[np.argsort(fullest[open_rows], kind="stable")][: len(dealt)]
        lead = loads[0, open_rows] - loads[1, open_rows]
        taken = open_rows[np.argsort(lead, kind="stable")]
        given = dealt[np.argsort(-surplus[dealt], kind="stable")]
        rows[given] = taken
        loads[0, taken] += source_lengths[given]
        loads[1, taken] += target_lengths[given]
    return rows
