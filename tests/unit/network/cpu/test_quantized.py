import copy
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cpu import quantized
from mtkit.network.cpu.compiled import choose_library
from mtkit.network.cpu.integer_products import (
    KERNELS,
    CompiledProduct,
    IntegerProduct,
    IntMmProduct,
    OneDnnProduct,
    PlainProduct,
    as_rows,
)
from mtkit.network.cpu.quantized import (
    QuantizedLinear,
    choose_kernel,
    gains_by_compiling,
    gains_by_quantizing,
    is_exact,
    quantize_linear_maps,
    quantize_rows,
)
from mtkit.recipe.model import Model


@pytest.fixture(params=KERNELS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> type[IntegerProduct]:
    # Tried here, not while tests are collected: processes that share tests out must collect the
    # same ones, and a kernel that is too slow on a busy machine may be none on a quiet one.
    if not is_exact(request.param):
        pytest.skip(f"{request.param.name} isn't exact, or too slow, on this processor")
    return request.param


def _list_exact() -> list[type[IntegerProduct]]:
    return [each for each in KERNELS if is_exact(each)]


@pytest.fixture(autouse=True)
def _try_kernels_anew():
    caches = choose_kernel, gains_by_compiling, gains_by_quantizing
    for function in caches:
        function.cache_clear()
    yield
    for function in caches:
        function.cache_clear()


def _draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num_inputs", [1, 24, 1_040, 1_041, 2_048, 4_096])
def test_sums_are_those_of_whole_numbers(kind: type[IntegerProduct], num_inputs: int) -> None:
    draws = np.random.default_rng(num_inputs)
    rows, weight = (draws.integers(-127, 128, (count, num_inputs)) for count in (9, 33))
    # The largest sum there is, 4,096 * 127 * 127, is more than fp32 tells from its neighbours.
    rows[0], weight[0] = 127, 127
    expected = rows @ weight.T
    product = kind(torch.from_numpy(weight).to(torch.int8), torch.ones(33))
    found = product.multiply(as_rows(torch.from_numpy(rows).to(torch.int8), kind))
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))


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
def test_a_weight_that_is_not_finite_makes_its_output_nan(
    kind: type[IntegerProduct], wrong: float
) -> None:
    weight = _draw(5, 24)
    weight[3, 7] = wrong
    with torch.no_grad():
        found = QuantizedLinear(weight, kind=kind)(_draw(3, 24, seed=2))
    assert found.isnan().tolist() == [[False, False, False, True, False]] * 3


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_makes_its_outputs_nan(
    kind: type[IntegerProduct], wrong: float
) -> None:
    rows = _draw(3, 27)
    rows[1, 7] = rows[2, 26] = wrong
    with torch.no_grad():
        found = QuantizedLinear(_draw(5, 27, seed=2), kind=kind)(rows)
    assert found.isnan().tolist() == [[False] * 5, [True] * 5, [True] * 5]


@pytest.mark.parametrize("largest", [1e-30, 1e-33, 3.6e-37, 1.1e-37, 9e-38, 1e-39])
def test_tiny_rows_are_multiplied(kind: type[IntegerProduct], largest: float) -> None:
    rows, weight = _draw(2, 40), _draw(16, 40, seed=2)
    rows = rows / rows.abs().amax(1, keepdim=True) * largest
    with torch.no_grad():
        found = QuantizedLinear(weight, kind=kind)(rows).double()
        enlarged = QuantizedLinear(weight, kind=kind)(rows.double().mul(2.0**110).float()).double()
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


def test_a_row_does_not_depend_on_the_others(kind: type[IntegerProduct]) -> None:
    linear = QuantizedLinear(_draw(40, 48), _draw(40, seed=2), kind=kind)
    rows = _draw(300, 48, seed=3)
    rows[7] *= 1e6
    with torch.no_grad():
        together = linear(rows.view(100, 3, 48)).view(300, 40)
        for index in range(0, 300, 7):
            assert torch.equal(linear(rows[index]), together[index])


def test_all_kernels_have_the_same_bits() -> None:
    weight, bias, rows = _draw(70, 2_048), _draw(70, seed=2), _draw(33, 2_048, seed=3)
    kinds = [kind for kind in _list_exact() if kind is not CompiledProduct]
    with torch.no_grad():
        first, *others = (QuantizedLinear(weight, bias, kind=kind)(rows) for kind in kinds)
    assert all(torch.equal(first, other) for other in others)


def test_the_compiled_kernel_rounds_as_the_others_but_for_ties() -> None:
    if not is_exact(CompiledProduct):
        pytest.skip("no compiled kernel here")
    weight, bias, rows = _draw(70, 2_048), _draw(70, seed=2), _draw(33, 2_048, seed=3)
    with torch.no_grad():
        expected = QuantizedLinear(weight, bias, kind=PlainProduct)(rows)
        found = QuantizedLinear(weight, bias, kind=CompiledProduct)(rows)
    # A number half-way between two integers may become either: a unit of the row times a weight.
    unit = rows.abs().amax(1, keepdim=True) / 127 * weight.abs().amax(1)
    off = (found - expected).abs()
    assert (off <= 2 * unit).all()
    assert ((off <= 1e-5 * expected.abs() + 1e-5).float().mean(dim=1) > 0.9).float().mean() > 0.8


def test_rows_of_zeros_and_rows_that_are_no_numbers(kind: type[IntegerProduct]) -> None:
    bias = _draw(8)
    linear = QuantizedLinear(_draw(8, 16, seed=2), bias, kind=kind)
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


def test_the_plain_product_is_there_on_every_processor() -> None:
    assert is_exact(PlainProduct)
    assert choose_kernel() in KERNELS


def _saturate(self, rows: torch.Tensor) -> torch.Tensor:
    """What a processor without VNNI does: sums of pairs in 16 bits (Intel's vpmaddubsw)."""
    sums = torch.zeros(len(rows), self.columns.shape[1])
    for first in range(0, rows.shape[1], 2):
        pair = rows[:, first : first + 2].int() @ self.columns[first : first + 2].int()
        sums += pair.clamp(-(2**15), 2**15 - 1).float()
    return sums - 128.0 * self.columns.float().sum(0)


def test_a_kernel_that_overflows_is_not_taken(monkeypatch) -> None:
    def lay_out(self, weight: torch.Tensor, scales: torch.Tensor) -> None:
        self.columns = weight.t()

    monkeypatch.setattr(OneDnnProduct, "__init__", lay_out)
    monkeypatch.setattr(OneDnnProduct, "multiply", _saturate)
    assert not is_exact(OneDnnProduct)
    assert choose_kernel() is not OneDnnProduct


def test_a_kernel_that_is_imitated_is_not_taken(monkeypatch) -> None:
    multiply = IntMmProduct.multiply

    def take_long(self, rows: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return multiply(self, rows)

    monkeypatch.setattr(IntMmProduct, "multiply", take_long)
    assert not is_exact(IntMmProduct)


@pytest.mark.parametrize("fault", [AttributeError, RuntimeError])
def test_a_kernel_that_this_torch_has_not_is_not_taken(monkeypatch, fault) -> None:
    def fail(self, rows: torch.Tensor) -> torch.Tensor:
        raise fault

    for kind in (CompiledProduct, OneDnnProduct, IntMmProduct):
        monkeypatch.setattr(kind, "multiply", fail)
    assert choose_kernel() is PlainProduct


@pytest.mark.skipif(choose_library() is None, reason="mtkit was installed without a C++ compiler")
def test_the_compiled_kernel_is_taken_unless_it_is_much_slower(monkeypatch) -> None:
    kinds = [CompiledProduct, OneDnnProduct, PlainProduct]
    monkeypatch.setattr(quantized, "is_exact", lambda kind: kind in kinds)
    monkeypatch.setattr(quantized, "has_vnni", lambda: False)
    for seconds, chosen in (([1.9, 1.0, 5.0], CompiledProduct), ([2.1, 1.0, 5.0], OneDnnProduct)):
        choose_kernel.cache_clear()
        given_seconds = iter(seconds)
        monkeypatch.setattr(quantized, "_time", lambda *_, left=given_seconds: next(left))
        assert choose_kernel() is chosen


@pytest.mark.parametrize(("seconds", "gains"), [((1.0, 0.5), True), ((1.0, 0.9), False)])
def test_eight_bits_gain_where_they_are_clearly_faster(monkeypatch, seconds, gains: bool) -> None:
    choose_kernel()
    given_seconds = iter(seconds)
    monkeypatch.setattr(quantized, "gains_by_compiling", lambda _: False)
    monkeypatch.setattr(quantized, "_time", lambda *_: next(given_seconds))
    assert gains_by_quantizing("fp32") is gains


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
