"""Rows that several sentences share are alike, and hold little padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.rows import count_width, fill_rows

LENGTHS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200)), min_size=1, max_size=80)


def measure(
    source: np.ndarray, target: np.ndarray, rows_multiple: int = 0
) -> tuple[int, list[int]]:
    """Returns the number of rows and the width of either side."""
    order, sizes = fill_rows(source, target, rows_multiple=rows_multiple)
    assert sorted(order.tolist()) == list(range(len(source)))
    assert sizes.sum() == len(source)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    sides = source[order], target[order]
    return len(sizes), [count_width(np.bincount(rows, side).max()) for side in sides]


def draw(total: int, typical: float, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns lengths of pairs, spread as those of news are, of so many tokens a side."""
    generator = np.random.default_rng(total)
    target = generator.lognormal(np.log(typical), 0.6, total).clip(2, longest).astype(np.int64)
    source = (target * generator.normal(0.95, 0.2, total)).clip(2, longest).astype(np.int64)
    count = int(np.searchsorted(np.cumsum(np.maximum(source, target)), total))
    return source[:count], target[:count]


@given(LENGTHS, st.sampled_from([0, 1, 3]))
def test_every_sentence_is_in_one_row(lengths, rows_multiple) -> None:
    source, target = (np.array(side) for side in zip(*lengths, strict=True))
    num_rows, widths = measure(source, target, rows_multiple)
    assert num_rows % max(rows_multiple, 1) == 0
    assert num_rows * max(widths) <= 4 * max(source.sum(), target.sum(), 512) * max(
        rows_multiple, 1
    )


@pytest.mark.parametrize(
    ("total", "typical", "longest", "most"),
    [(25_000, 12, 100, 0.06), (25_000, 24, 250, 0.08), (3_125, 12, 100, 0.08), (500, 8, 40, 0.15)],
)
def test_rows_are_nearly_full(total, typical, longest, most) -> None:
    source, target = draw(total, typical, longest)
    num_rows, widths = measure(source, target)
    assert 1 - (source.sum() + target.sum()) / (num_rows * sum(widths)) < most
    assert max(widths) < max(264, 1.2 * longest)


def test_texts_of_one_length_have_a_row_each() -> None:
    lengths = np.full(31, 512)
    assert measure(np.zeros_like(lengths), lengths) == (31, [0, 512])


def test_few_numbers_of_rows_where_they_are_asked_for() -> None:
    found = {
        measure(*draw(total, 12, 60), rows_multiple=25)[0] for total in range(22_000, 25_000, 100)
    }
    assert len(found) <= 3
    assert {count % 25 for count in found} == {0}
