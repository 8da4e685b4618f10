"""A shuffle that takes no memory: where each position goes is computed, not stored.

A generalised Feistel network (Black and Rogaway, CT-RSA 2002) permutes a rectangle just larger than
the wanted range, by turns adding to the row a keyed hash of the column and to the column one of the
row; a position that lands outside the range is sent on until it lands inside.
"""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

_NUM_ROUNDS = 20
"""Enough that ranges of 2 to 8 positions come out in every order equally often; 16 are too few."""
_HALF = np.uint64(32)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, odd: no two of its multiples are alike (SplitMix; Steele 2014)."""


def derive_keys(*words: int, count: int) -> Keys:
    """Returns `count` keys that look unrelated, from non-negative numbers that name their use."""
    return derive_keys_of(np.arange(count), *words)


def derive_keys_of(numbers: NDArray[np.int64], *words: int) -> Keys:
    """Returns the keys of some numbers, as `derive_keys` numbers them from 0."""
    [master] = np.random.SeedSequence(words).generate_state(1, np.uint64)
    return _mix((numbers.astype(np.uint64) + np.uint64(1)) * _GOLDEN ^ master)


def scale_keys(keys: Keys, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns one number for each key, evenly spread over [0, size); sizes are under 2^31."""
    return ((_mix(keys) >> _HALF) * sizes.astype(np.uint64) >> _HALF).astype(np.int64)


def permute(
    positions: NDArray[np.int64], sizes: NDArray[np.int64], keys: Keys
) -> NDArray[np.int64]:
    """Returns where each position goes in the permutation of [0, size) that its key stands for.

    Args:
        positions: Numbers in [0, size).
        sizes: Size of each one's range, under 2^52.
        keys: Key of each one's permutation, from `derive_keys`.
    """
    # Nearly a square. An even number of rows: turning one column by a row is then an odd
    # permutation, and without odd ones half of all orders would come up too rarely.
    num_rows = (np.ceil(np.sqrt(sizes) / 2) * 2).astype(np.uint64)
    limits = sizes.astype(np.uint64)
    num_columns = (limits + num_rows - np.uint64(1)) // num_rows
    turns = np.arange(1, _NUM_ROUNDS + 1, dtype=np.uint64)[:, None]
    round_keys = _mix(keys + turns * _GOLDEN)
    moved = _pass_through(positions.astype(np.uint64), num_rows, num_columns, round_keys)
    while (outside := np.flatnonzero(moved >= limits)).size:
        moved[outside] = _pass_through(
            moved[outside], num_rows[outside], num_columns[outside], round_keys[:, outside]
        )
    return moved.astype(np.int64)


def _pass_through(
    positions: NDArray[np.uint64],
    num_rows: NDArray[np.uint64],
    num_columns: NDArray[np.uint64],
    round_keys: Keys,
) -> NDArray[np.uint64]:
    """Returns where positions go in a permutation of [0, num_rows * num_columns)."""
    column, row = np.divmod(positions, num_rows)
    for turn in range(0, _NUM_ROUNDS, 2):
        row = _add(row, num_rows, column, round_keys[turn])
        column = _add(column, num_columns, row, round_keys[turn + 1])
    return column * num_rows + row


def _add(
    half: NDArray[np.uint64], size: NDArray[np.uint64], other: NDArray[np.uint64], keys: Keys
) -> NDArray[np.uint64]:
    """Returns `half` moved on around a circle of `size` by a keyed hash of the other half."""
    hashed = other * np.uint64(0xD1342543DE82EF95) ^ keys
    hashed = (hashed ^ hashed >> _HALF) * np.uint64(0xBF58476D1CE4E5B9) >> _HALF
    moved = half + (hashed * size >> _HALF)
    # Where it hasn't come round, the difference is below 0 and so, unsigned, the greater one.
    return np.minimum(moved, moved - size)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns words each of whose bits hangs on every bit given (SplitMix64's last steps)."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)
