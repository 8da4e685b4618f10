"""Outputs of a young model: how long they may be, and where repetitions end."""

import math

import pytest
import torch

from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.inference.search.rules import ends_in_repetition
from mtkit.inference.search.sampling import greedy_search
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import EOS

from .table_model import A, B, Table, TableModel, written_out

_PLAIN = LengthPenalty(kind="power", alpha=0.0)


def endless(last_length: int | None = None) -> Table:
    """Returns a model that writes A B A B without end, or ends after a length."""
    table = {}
    prefix: tuple[int, ...] = ()
    for length in range(200):
        if length == last_length:
            table[prefix] = {EOS: 0.9, A: 0.1}
        else:
            likely, other = (A, B) if length % 2 == 0 else (B, A)
            table[prefix] = {likely: 0.9, other: 0.06, EOS: 0.04}
        prefix = (*prefix, A if length % 2 == 0 else B)
    return written_out(table)


def test_bounds_lie_above_every_pair() -> None:
    # 1.5 times the largest of 24 / (2 + 10) and 10 / (40 + 10); twice the 12 tokens 7 8 7 8 ...
    targets = [[*range(100, 111), 9, *[7, 8] * 6], [*range(10)]]
    assert OutputBounds.measure([2, 40], targets) == OutputBounds(3.0, 24)
    # Nothing repeats: 20.
    assert OutputBounds.measure([40], [[*range(10)]]).max_repeated == 20


def test_a_limit_is_lowered_and_never_raised() -> None:
    bounds = OutputBounds(1.5, 20)
    assert bounds.lower(50, 10) == 30
    assert bounds.lower(25, 10) == 25
    assert NO_BOUNDS.lower(25, 10) == 25


@pytest.mark.parametrize(
    ("cycle", "repeats"), [([4], True), ([4, 5, 6], True), ([4, 5, 6, 7, 8, 9], False)]
)
def test_a_repetition_has_a_short_period(cycle: list[int], repeats: bool) -> None:
    history = torch.tensor([cycle * 20])[:, :20]
    assert ends_in_repetition(history, 20).tolist() == [repeats]
    history[0, 3] = 99
    assert ends_in_repetition(history, 20).tolist() == [False]
    assert ends_in_repetition(history, 21) is None


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_search_ends_at_a_repetition(beam_size: int) -> None:
    def search(table: Table, max_repeated: int | None) -> tuple[int, ...]:
        model, limits = TableModel([table]), torch.tensor([60])
        if beam_size == 1:
            ((found, *_),) = greedy_search(model, limits, _PLAIN, max_repeated=max_repeated)
        else:
            ((found, *_),) = beam_search(
                model,
                limits,
                beam_size=2,
                n_best=1,
                penalty=LengthPenalty(kind="power", alpha=1.0),
                max_repeated=max_repeated,
            )
        assert math.isfinite(found.score)
        return found.token_ids

    repeated = [A, B] * 30
    assert search(endless(), None) == tuple(repeated)
    # A beam ends with the step after.
    assert search(endless(), 20) == tuple(repeated[: 19 + beam_size])
    # An output that ends before is the same with the bound and without.
    ended = (*repeated[:18], EOS)
    assert search(endless(18), None) == search(endless(18), 20) == ended
