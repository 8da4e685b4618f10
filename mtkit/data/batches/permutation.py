"""A shuffle that takes no memory: each position's destination is computed, not stored.

A generalised Feistel network (Black and Rogaway, CT-RSA 2002) permutes a rectangle just larger than
the range. It alternately adds to the row a keyed hash of the column, and to the column one of the
row. A position that lands outside the range is passed through again until it lands inside.
"""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

_NUM_ROUNDS = 20
"""Enough that ranges of 2 to 8 positions get all orders equally often; 16 aren't enough."""
_HALF = np.uint64(32)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, odd, so its multiples all differ (SplitMix; Steele 2014)."""


def derive_keys(*words: int, count: int) -> Keys:
    """Returns `count` keys that look unrelated, seeded by non-negative numbers."""
    return derive_keys_of(np.arange(count), *words)


def derive_keys_of(numbers: NDArray[np.int64], *words: int) -> Keys:
    """Returns the keys with the given numbers in the sequence of `derive_keys`."""
    [master] = np.random.SeedSequence(words).generate_state(1, np.uint64)
    return _mix((numbers.astype(np.uint64) + np.uint64(1)) * _GOLDEN ^ master)


def scale_keys(keys: Keys, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns a number in [0, size) for each key, evenly spread; sizes are under 2^31."""
    return ((_mix(keys) >> _HALF) * sizes.astype(np.uint64) >> _HALF).astype(np.int64)


def permute(
    positions: NDArray[np.int64], sizes: NDArray[np.int64], keys: Keys
) -> NDArray[np.int64]:
    """Returns positions' destinations in their keys' permutations of [0, size), size under 2^52."""
    # Nearly a square. With an even number of rows, turning one column by a row is an odd
    # permutation; without odd ones, half of all orders would come up too rarely.
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
    """Returns destinations in a permutation of [0, num_rows * num_columns)."""
    column, row = np.divmod(positions, num_rows)
    for turn in range(0, _NUM_ROUNDS, 2):
        row = _add(row, num_rows, column, round_keys[turn])
        column = _add(column, num_columns, row, round_keys[turn + 1])
    return column * num_rows + row


def _add(
    half: NDArray[np.uint64], size: NDArray[np.uint64], other: NDArray[np.uint64], keys: Keys
) -> NDArray[np.uint64]:
    """Returns `half`, moved around a circle of `size` by a keyed hash of the other half."""
    hashed = other * np.uint64(0xD1342543DE82EF95) ^ keys
    hashed = (hashed ^ hashed >> _HALF) * np.uint64(0xBF58476D1CE4E5B9) >> _HALF
    moved = half + (hashed * size >> _HALF)
    # If it hasn't wrapped around, the difference is negative and so, unsigned, the larger one.
    return np.minimum(moved, moved - size)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns words each of whose bits depends on every input bit (SplitMix64's last steps)."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)
