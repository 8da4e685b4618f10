"""Spans hidden from a text: how much, how long, where; the numbers are BART's paper's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.masking import InfillingReader
from mtkit.data.batches.ragged import Ragged
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import EOS

MASK = 5
FIRST = 10


class OneStore:
    """A store of some rows, as far as a reader looks at it."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows

    def lengths(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {"text": np.array([len(self.rows[row]) for row in rows])}

    def gather(self, rows: np.ndarray, columns: list[str]) -> dict[str, Ragged]:
        return {column: Ragged.of([self.rows[row] for row in rows]) for column in columns}


def reader(rows: list[list[int]] = (), *, seed: int = 1, **settings) -> InfillingReader:
    return InfillingReader(
        OneStore(list(rows)), Denoising(**settings), mask_token=MASK, words=(seed,)
    )


def texts(sizes: list[int]) -> Ragged:
    """Texts of so many tokens, which rise from `FIRST` on, so that each tells where it stood."""
    return Ragged.of([[*range(FIRST, FIRST + size), EOS] for size in sizes])


def read_spans(source: list[int], size: int) -> list[tuple[int, int, int]]:
    """Returns where `<mask>`s stood in a text: a first token, masked tokens, `<mask>`s there."""
    assert source[-1] == EOS
    spans, first, num_masks = [], 0, 0
    for token in [*source[:-1], FIRST + size]:
        if token == MASK:
            num_masks += 1
            continue
        seen = token - FIRST
        assert seen >= first, "visible tokens keep their order"
        if num_masks or seen > first:
            assert num_masks, "nothing is left out without a mask"
            spans.append((first, seen - first, num_masks))
        first, num_masks = seen + 1, 0
    return spans


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=8),
    share=st.floats(0.01, 0.99),
    mean_span=st.floats(1.0, 20.0),
    epoch=st.integers(0, 3),
)
def test_a_share_of_each_text_gives_way_to_masks(sizes, share, mean_span, epoch) -> None:
    target = texts(sizes)
    corrupted = reader(share=share, mean_span=mean_span).corrupt(
        target, np.arange(len(sizes)), epoch
    )
    assert len(corrupted) == len(sizes)
    for size, source in zip(sizes, corrupted.to_lists(), strict=True):
        spans = read_spans(source, size)
        num_masked = sum(hidden for _, hidden, _ in spans)
        assert num_masked == min(max(round(size * share), 1), size)
        assert sum(masks for *_, masks in spans) <= num_masked
        assert len(source) <= size + 1


def test_what_is_hidden_hangs_on_seed_epoch_and_block_alone() -> None:
    sizes = [40, 7, 23, 31, 12]
    target = texts(sizes)
    rows = np.array([3, 3_000_000_000, 8, 100, 2])
    whole = reader().corrupt(target, rows, 2).to_lists()
    for index, row in enumerate(rows):
        alone = reader().corrupt(texts([sizes[index]]), np.array([row]), 2).to_lists()
        assert alone == [whole[index]]
    order = np.array([4, 2, 0, 1, 3])
    other = reader().corrupt(texts([sizes[index] for index in order]), rows[order], 2).to_lists()
    assert other == [whole[index] for index in order]
    assert reader().corrupt(target, rows.astype(np.uint32), 2).to_lists() == whole
    assert reader().corrupt(target, rows, 3).to_lists() != whole
    assert reader(seed=2).corrupt(target, rows, 2).to_lists() != whole
    assert reader().corrupt(target, rows + 1, 2).to_lists() != whole


@pytest.mark.parametrize("mean_span", [1.0, 3.0, 8.5])
def test_spans_have_lengths_of_a_poisson_distribution(mean_span: float) -> None:
    # Where one mask stands alone between visible tokens, its length is known.
    size, count = 30_000, 20
    corrupted = reader(share=0.1, mean_span=mean_span).corrupt(
        texts([size] * count), np.arange(count), 0
    )
    lengths = np.array(
        [
            hidden
            for source in corrupted.to_lists()
            for _, hidden, masks in read_spans(source, size)
            if masks == 1
        ]
    )
    for length in range(round(4 * mean_span)):
        expected = math.exp(-mean_span) * mean_span**length / math.factorial(length)
        found = np.mean(lengths == length)
        # The last span that each text draws is cut.
        tolerance = 4 * math.sqrt(expected / len(lengths)) + count / len(lengths)
        assert found == pytest.approx(expected, abs=tolerance), length


def test_spans_stand_anywhere_equally_often() -> None:
    # A span of two in a text of five has four places; two masks of one token each have others.
    count = 40_000
    corrupted = reader(share=0.4, mean_span=3.0).corrupt(texts([5] * count), np.arange(count), 0)
    spans = [read_spans(source, 5) for source in corrupted.to_lists()]
    places = [found[0][0] for found in spans if found[0][1:] == (2, 1) and len(found) == 1]
    # A draw of 2 or more at once: 1 - 4 e^-3.
    assert len(places) / count == pytest.approx(1 - 4 * math.exp(-3.0), abs=0.01)
    for place in range(4):
        assert places.count(place) / len(places) == pytest.approx(1 / 4, abs=0.012)


def test_a_block_is_one_text_that_ends_once() -> None:
    rows = [[7, 8, EOS, 9, EOS], [EOS, 7, EOS], [7, 8, 9], [EOS]]
    wanted = [[7, 8, 9, EOS], [7, EOS], [7, 8, 9, EOS], [EOS]]
    found = reader(rows)
    numbers = np.array([2, 0, 3, 1])
    source, target = found.read(numbers, 0)
    assert target.to_lists() == [wanted[row] for row in numbers]
    assert (source.lengths <= found.bound(numbers)).all()
    assert (target.lengths <= found.bound(numbers)).all()
    assert source.to_lists() == found.corrupt(target, numbers, 0).to_lists()
    # There is nothing to hide in a text of no tokens.
    assert source.to_lists()[2] == [EOS]
