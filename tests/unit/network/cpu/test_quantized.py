import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mtkit.engine.library import choose_library
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cpu.quantized import QuantizedLinear, quantize_linear_maps, quantize_rows
from mtkit.recipe.model import Model


@pytest.fixture(params=(False, True), ids=("engine", "plain"))
def is_plain(request: pytest.FixtureRequest) -> bool:
    if not request.param and choose_library() is None:
        pytest.skip("mtkit was installed without a C++ compiler")
    return request.param


def _draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num_inputs", [1, 24, 1_040, 1_041, 2_048, 4_096])
def test_sums_are_those_of_whole_numbers(is_plain: bool, num_inputs: int) -> None:
    draws = np.random.default_rng(num_inputs)
    rows, weight = (draws.integers(-127, 128, (count, num_inputs)) for count in (9, 33))
    # With a largest number of 127 integers stay as they are. The largest sum, 4,096 * 127 * 127, is
    # more than fp32 tells from its neighbours.
    rows[:, 0], weight[:, 0] = 127, -127
    rows[0], weight[0] = 127, 127
    expected = rows @ weight.T
    with torch.no_grad():
        product = QuantizedLinear(torch.from_numpy(weight).float(), is_plain=is_plain)
        found = product(torch.from_numpy(rows).float())
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected.astype(np.float32), rtol=3e-7)


def test_a_product_by_hand() -> None:
    # Largest numbers 2 and 1.27: a unit is 2 / 127 of a row, and 0.01 of the weight.
    row, weight = torch.tensor([[2.0, -1.0]]), torch.tensor([[1.27, 0.5], [0.0, 0.0]])
    with torch.no_grad():
        found = QuantizedLinear(weight, torch.tensor([0.25, -3.0]))(row)
    # -1 becomes -63.5, which is rounded to -64, the even one of its neighbours.
    expected = (127 * 127 - 64 * 50) * (2 / 127) * 0.01 + 0.25
    torch.testing.assert_close(found, torch.tensor([[expected, -3.0]]))


def test_weights_have_a_scale_for_each_output() -> None:
    integers, scales = quantize_rows(torch.tensor([[0.5, -1.27], [0.0, 0.0], [1e-3, 254.0]]))
    assert integers.tolist() == [[50, -127], [0, 0], [0, 127]]
    torch.testing.assert_close(scales, torch.tensor([0.01, 1.0, 2.0]))


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_weight_that_is_not_finite_makes_its_output_nan(is_plain: bool, wrong: float) -> None:
    weight = _draw(5, 24)
    weight[3, 7] = wrong
    with torch.no_grad():
        found = QuantizedLinear(weight, is_plain=is_plain)(_draw(3, 24, seed=2))
    assert found.isnan().tolist() == [[False, False, False, True, False]] * 3


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_makes_its_outputs_nan(is_plain: bool, wrong: float) -> None:
    rows = _draw(3, 27)
    rows[1, 7] = rows[2, 26] = wrong
    with torch.no_grad():
        found = QuantizedLinear(_draw(5, 27, seed=2), is_plain=is_plain)(rows)
    assert found.isnan().tolist() == [[False] * 5, [True] * 5, [True] * 5]


@pytest.mark.parametrize("largest", [1e-30, 1e-33, 3.6e-37, 1.1e-37, 9e-38, 1e-39])
def test_tiny_rows_are_multiplied(is_plain: bool, largest: float) -> None:
    rows, weight = _draw(2, 40), _draw(16, 40, seed=2)
    rows = rows / rows.abs().amax(1, keepdim=True) * largest
    with torch.no_grad():
        found = QuantizedLinear(weight, is_plain=is_plain)(rows).double()
        enlarged = QuantizedLinear(weight, is_plain=is_plain)(
            rows.double().mul(2.0**110).float()
        ).double()
    # Below the least normal number floats hold fewer digits.
    torch.testing.assert_close(
        found * 2.0**110, enlarged, rtol=1e-4, atol=2e-3 * largest * 2.0**110
    )


@pytest.mark.parametrize("largest", [1e-36, 2e-43, 5e-44, 1e-45])
def test_weights_below_the_least_normal_number_do_not_overflow(largest: float) -> None:
    weight = torch.tensor([[largest, -largest / 2]])
    integers, scales = quantize_rows(weight)
    off = (scales.double() * integers - weight.double()).abs().max()
    # Half a unit of the integers; a scale is rounded to a multiple of 2^-149, and 127 times that.
    assert off <= largest / 127 * 0.51 + 127 * 2.0**-150


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 70), st.integers(1, 40), st.integers(1, 20), st.integers(-20, 20), st.integers()
)
def test_an_error_is_no_greater_than_rounding_makes_it(
    num_rows: int, num_inputs: int, num_outputs: int, exponent: int, seed: int
) -> None:
    rows = _draw(num_rows, num_inputs, seed=seed % 2**32) * 2.0**exponent
    weight = _draw(num_outputs, num_inputs, seed=seed % 2**32 + 1)
    with torch.no_grad():
        found = QuantizedLinear(weight)(rows).double()
    exact = rows.double() @ weight.double().T
    # Each number is off by half a unit at most.
    off_rows = rows.double().abs().amax(1, keepdim=True) / 127 / 2
    off_weight = weight.double().abs().amax(1) / 127 / 2
    bound = (
        off_rows * weight.double().abs().sum(1)
        + rows.double().abs().sum(1, keepdim=True) * off_weight
        + num_inputs * off_rows * off_weight
    )
    assert ((found - exact).abs() <= bound * (1 + 1e-5) + 1e-30).all()


def test_a_row_does_not_depend_on_the_others(is_plain: bool) -> None:
    linear = QuantizedLinear(_draw(40, 48), _draw(40, seed=2), is_plain=is_plain)
    rows = _draw(300, 48, seed=3)
    rows[7] *= 1e6
    with torch.no_grad():
        together = linear(rows.view(100, 3, 48)).view(300, 40)
        for index in range(0, 300, 7):
            assert torch.equal(linear(rows[index]), together[index])


def test_the_compiled_kernel_rounds_as_the_others_but_for_ties() -> None:
    if choose_library() is None:
        pytest.skip("no compiled kernel here")
    weight, bias, rows = _draw(70, 2_048), _draw(70, seed=2), _draw(33, 2_048, seed=3)
    with torch.no_grad():
        expected = QuantizedLinear(weight, bias, is_plain=True)(rows)
        found = QuantizedLinear(weight, bias, is_plain=False)(rows)
    # A number half-way between two integers may become either: a unit of the row times a weight.
    unit = rows.abs().amax(1, keepdim=True) / 127 * weight.abs().amax(1)
    off = (found - expected).abs()
    assert (off <= 2 * unit).all()
    assert ((off <= 1e-5 * expected.abs() + 1e-5).float().mean(dim=1) > 0.9).float().mean() > 0.8


def test_rows_of_zeros_and_rows_that_are_no_numbers(is_plain: bool) -> None:
    bias = _draw(8)
    linear = QuantizedLinear(_draw(8, 16, seed=2), bias, is_plain=is_plain)
    rows = _draw(6, 16, seed=3)
    rows[0] = 0.0
    rows[1, 3], rows[2, 3], rows[3, 3] = torch.nan, torch.inf, -torch.inf
    with torch.no_grad():
        found = linear(rows)
        alone = linear(rows[4:])
    assert torch.equal(found[0], bias)
    assert not found[1:4].isfinite().any()
    assert torch.equal(found[4:], alone)


def test_it_cannot_be_trained_unawares() -> None:
    with pytest.raises(AssertionError):
        QuantizedLinear(torch.ones(2, 2))(torch.ones(1, 2))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", ["three-way", "none"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_network_computes_nearly_what_it_did(norm: str, tied: str, activation: str) -> None:
    torch.manual_seed(4)
    section = Model(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=64,
        d_ff=96,
        num_heads=2,
        norm=norm,
        tied_embeddings=tied,
        activation=activation,
    )
    model = EncoderDecoder(section, 30, 30).eval()
    integers = copy.deepcopy(model)
    integers.quantize()
    assert not any(isinstance(part, nn.Linear) for part in integers.modules())
    source, target = torch.randint(4, 30, (3, 7)), torch.randint(4, 30, (3, 5))
    layout = PaddedLayout.without_padding(source)
    inputs = source, layout, target, PaddedLayout.without_padding(target)
    with torch.no_grad():
        expected = model.project(model(*inputs))
        found = integers.project(integers(*inputs))
        # Eight bits are a hundredth or two of a number as large as most.
        assert (found - expected).std() < 0.03 * expected.std()
        assert not torch.equal(found, expected)
        cache = integers.start(source, layout)
        for step in range(5):
            logits = integers.step(target[:, step : step + 1], cache)
            torch.testing.assert_close(logits[:, 0], found[:, step], rtol=0.03, atol=0.03)


def test_only_linear_maps_are_replaced() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Sequential(nn.Linear(3, 1)))
    quantize_linear_maps(network)
    kinds = [type(part) for part in (network[0], network[1], network[2][0])]
    assert kinds == [QuantizedLinear, nn.LayerNorm, QuantizedLinear]
