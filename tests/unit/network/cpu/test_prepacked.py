import copy

import pytest
import torch
from torch import nn

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cpu.prepacked import (
    PrepackedLinear,
    gains_by_prepacking,
    prepack_linear_maps,
)
from mtkit.network.device import is_imitated
from mtkit.recipe.model import Model

_CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN"
)


@pytest.mark.parametrize(
    "shape", [(7,), (3, 4), (2, 5, 3), (0, 4), (1, 1), (32,), (33,), (40, 4), (128,)], ids=str
)
def test_products_are_those_of_a_linear_map(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    linear, inputs = nn.Linear(24, 40), torch.randn(*shape, 24)
    # By hand, in double precision.
    expected = inputs.double() @ linear.weight.double().T + linear.bias.double()
    with torch.no_grad():
        found = PrepackedLinear(linear.weight, linear.bias)(inputs)
        unbiased = PrepackedLinear(linear.weight)(inputs)
    assert found.shape == (*shape, 40) == unbiased.shape
    torch.testing.assert_close(found.double(), expected, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(
        unbiased.double(), expected - linear.bias.double(), rtol=0.0, atol=1e-5
    )


def test_rows_may_lie_anyhow_in_memory() -> None:
    torch.manual_seed(2)
    linear, inputs = nn.Linear(6, 5), torch.randn(6, 4, 3)
    with torch.no_grad():
        found = PrepackedLinear(linear.weight, linear.bias)(inputs.transpose(0, 2))
        torch.testing.assert_close(found, linear(inputs.transpose(0, 2)))


def test_few_numbers_of_rows_come_to_the_kernels(monkeypatch) -> None:
    seen = set()
    multiply = torch.ops.mkldnn._linear_pointwise

    def note(rows: torch.Tensor, *others: object) -> torch.Tensor:
        seen.add(rows.shape[0])
        return multiply(rows, *others)

    matrix = PrepackedLinear(torch.ones(2, 3))
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", note)
    with torch.no_grad():
        for num_rows in range(1, 1025):
            assert matrix(torch.ones(num_rows, 3)).tolist() == [[3.0, 3.0]] * num_rows
    assert seen == {8, 16, 24, *range(32, 257, 32), *range(320, 1025, 64)}


@pytest.mark.skipif(is_imitated(_CPU), reason="this processor has no products of bfloat16")
def test_products_in_bfloat16_are_as_near_as_torchs() -> None:
    torch.manual_seed(3)
    weight, inputs = torch.randn(40, 24).bfloat16(), torch.randn(9, 24).bfloat16()
    exact = inputs.double() @ weight.double().T
    with torch.no_grad():
        found = PrepackedLinear(weight)(inputs)
    assert found.dtype == torch.bfloat16
    # Eight binary places: half a unit in the last is 2^-8 of a number at most.
    assert ((found.double() - exact).abs() <= 2**-8 * exact.abs() + 1e-5).all()


def test_it_cannot_be_trained_unawares() -> None:
    with pytest.raises(AssertionError):
        PrepackedLinear(torch.ones(2, 2))(torch.ones(1, 2))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", ["three-way", "none"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_network_computes_what_it_did(norm: str, tied: str, activation: str) -> None:
    torch.manual_seed(4)
    section = Model(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=16,
        d_ff=24,
        num_heads=2,
        norm=norm,
        tied_embeddings=tied,
        activation=activation,
    )
    model = EncoderDecoder(section, 30, 30).eval()
    fixed = copy.deepcopy(model)
    fixed.prepack()
    assert not any(isinstance(part, nn.Linear) for part in fixed.modules())
    assert fixed.output_embedding.projection is not None
    source, target = torch.randint(4, 30, (3, 7)), torch.randint(4, 30, (3, 5))
    layout = PaddedLayout.without_padding(source)
    inputs = source, layout, target, PaddedLayout.without_padding(target)
    with torch.no_grad():
        expected = model.project(model(*inputs))
        torch.testing.assert_close(fixed.project(fixed(*inputs)), expected)
        cache = fixed.start(source, layout)
        for step in range(5):
            logits = fixed.step(target[:, step : step + 1], cache)
            torch.testing.assert_close(logits[:, 0], expected[:, step], rtol=1e-4, atol=1e-5)


def test_only_linear_maps_are_replaced() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Sequential(nn.Linear(3, 1)))
    prepack_linear_maps(network)
    kinds = [type(part) for part in (network[0], network[1], network[2][0])]
    assert kinds == [PrepackedLinear, nn.LayerNorm, PrepackedLinear]


def test_it_is_for_processors_with_avx512(monkeypatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert gains_by_prepacking(_CPU)
    assert not gains_by_prepacking(torch.device("cuda"))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not gains_by_prepacking(_CPU)
