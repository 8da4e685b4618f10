"""Products of each kind of CPU, against exact sums."""

from ctypes import CDLL

import numpy as np
import pytest

from mtkit.engine import linear
from mtkit.engine.library import KINDS, open_library

_SHAPES = [(1, 1), (31, 70), (33, 64), (100, 129)]
_NUM_ROWS = [1, 2, 11, 12, 15, 16, 17, 31, 32, 33, 64, 65, 97]


@pytest.fixture(params=KINDS, autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    plain, opened = open_library("plain"), open_library(request.param)
    if plain is None or opened is None or not plain.mtkit_supports(request.param.encode()):
        pytest.skip(f"not compiled, or this CPU lacks {request.param}")

    def choose() -> CDLL:
        return opened

    monkeypatch.setattr(linear, "choose_library", choose)
    return request.param


@pytest.mark.parametrize(("num_outputs", "num_inputs"), _SHAPES)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_sums_of_integers_are_exact(num_outputs: int, num_inputs: int, num_threads: int) -> None:
    draws = np.random.default_rng(num_inputs)
    weight = draws.integers(-127, 128, (num_outputs, num_inputs))
    bias = draws.integers(-9, 9, num_outputs).astype(np.float32)
    # With a largest number of 127 integers stay as they are.
    weight[:, 0] = -127
    product = linear.Linear("int8", weight.astype(np.float32), bias)
    for num_rows in _NUM_ROWS:
        rows = draws.integers(-127, 128, (num_rows, num_inputs))
        rows[:, 0] = 127
        found = product.apply(rows.astype(np.float32), num_threads)
        # Scales are rounded; a sum that isn't exact is off by a whole number.
        np.testing.assert_allclose(found, rows @ weight.T + bias, rtol=3e-7, atol=1e-3)


@pytest.mark.parametrize("precision", ["int8", "bf16", "fp32"])
@pytest.mark.parametrize(("num_outputs", "num_inputs"), _SHAPES)
def test_a_row_does_not_depend_on_how_many_there_are(
    precision: str, num_outputs: int, num_inputs: int
) -> None:
    draws = np.random.default_rng(num_outputs)
    rows = draws.normal(size=(97, num_inputs)).astype(np.float32)
    weight = draws.normal(size=(num_outputs, num_inputs)).astype(np.float32)
    product = linear.Linear(precision, weight)
    expected = product.apply(rows, 1)
    for num_rows in _NUM_ROWS:
        for first in {0, 1, 97 - num_rows} & set(range(98 - num_rows)):
            found = product.apply(rows[first : first + num_rows], 1)
            np.testing.assert_array_equal(found, expected[first : first + num_rows])


@pytest.mark.parametrize(("num_outputs", "num_inputs"), _SHAPES)
def test_products_of_bfloat16_are_exact(num_outputs: int, num_inputs: int) -> None:
    draws = np.random.default_rng(num_outputs)
    # Integers of eight bits are bfloat16, and their sums are exact in fp32 in any order.
    rows = draws.integers(-255, 256, (40, num_inputs)).astype(np.float32)
    weight = draws.integers(-255, 256, (num_outputs, num_inputs)).astype(np.float32)
    found = linear.Linear("bf16", weight).apply(rows, 1)
    np.testing.assert_array_equal(found, rows @ weight.T)


@pytest.mark.parametrize("precision", ["int8", "bf16", "fp32"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_row_that_is_not_finite_leaves_the_others(precision: str, wrong: float) -> None:
    draws = np.random.default_rng(3)
    rows = draws.normal(size=(40, 70)).astype(np.float32)
    product = linear.Linear(precision, draws.normal(size=(33, 70)).astype(np.float32))
    expected = product.apply(rows, 1)
    rows[7, 69] = wrong
    found = product.apply(rows, 1)
    assert not np.isfinite(found[7]).any()
    np.testing.assert_array_equal(np.delete(found, 7, 0), np.delete(expected, 7, 0))
