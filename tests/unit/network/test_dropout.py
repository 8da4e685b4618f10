import pytest
import torch

from mtkit.network.sublayers import Dropout


def _drop(rate: float, shape: tuple[int, ...], seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(rate)(torch.ones(shape))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_zeroes_its_share_and_scales_up_the_rest(rate: float) -> None:
    numbers = 1_000_000
    dropped = _drop(rate, (1000, 1000))
    share = (dropped == 0).double().mean().item()
    # Five standard deviations of a binomial share.
    assert share == pytest.approx(rate, abs=5 * (rate * (1 - rate) / numbers) ** 0.5)
    # Srivastava et al. 2014, section 10, scaled while training; the rate is good to 2^-17.
    kept = dropped[dropped != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - rate), rel=1e-4)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_expects_its_input(rate: float) -> None:
    spread = (rate / (1 - rate)) ** 0.5
    mean = _drop(rate, (1000, 1000)).double().mean().item()
    assert mean == pytest.approx(1.0, abs=5 * spread / 1000)


def test_an_eighth_at_a_time_is_exact() -> None:
    # 0.125 is a multiple of 2^-16, and 1 / 0.875 the scale in fp32.
    dropped = _drop(0.125, (4096,))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.875).item()}


@pytest.mark.parametrize("num_numbers", [1, 2, 3, 4, 5, 7, 1023])
def test_takes_any_count_of_numbers(num_numbers: int) -> None:
    # Draws come four at a time: those of neighbours must not be the same draw.
    torch.manual_seed(1)
    dropout = Dropout(0.5)
    draws = torch.stack([dropout(torch.ones(num_numbers)) == 0 for _ in range(200)]).double()
    assert draws.shape == (200, num_numbers)
    # 0.27 is more than seven standard deviations of the mean of 200 coins.
    assert (draws.mean(dim=0) - 0.5).abs().max() < 0.27
    if num_numbers > 1:
        agreement = (draws[:, 1:] == draws[:, :-1]).double().mean(dim=0)
        assert (agreement - 0.5).abs().max() < 0.27


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("adds", [False, True])
def test_gradient_goes_through_the_numbers_kept(dtype: torch.dtype, adds: bool) -> None:
    # Powers of two, which no number type rounds.
    inputs = (2.0 ** torch.randint(-3, 4, (50, 7))).to(dtype).requires_grad_()
    dropout = Dropout(0.5)
    dropped = dropout.add(torch.zeros(50, 7, dtype=dtype), inputs) if adds else dropout(inputs)
    scale = (dropped / inputs).detach()
    assert set(scale.unique().tolist()) == {0.0, 2.0}
    upstream = torch.randn(50, 7, dtype=dtype)
    dropped.backward(upstream)
    assert torch.equal(inputs.grad, upstream * scale)


def test_evaluation_returns_the_input_itself() -> None:
    inputs = torch.randn(4, 4)
    assert Dropout(0.5).eval()(inputs) is inputs
    assert Dropout(0.0).train()(inputs) is inputs


def test_training_leaves_the_input_as_it_was() -> None:
    inputs = torch.ones(100)
    Dropout(0.5)(inputs)
    assert inputs.tolist() == [1.0] * 100


def test_the_seed_decides() -> None:
    assert torch.equal(_drop(0.5, (9, 9), seed=1), _drop(0.5, (9, 9), seed=1))
    assert not torch.equal(_drop(0.5, (9, 9), seed=1), _drop(0.5, (9, 9), seed=2))
    torch.manual_seed(1)
    dropout = Dropout(0.5)
    assert not torch.equal(dropout(torch.ones(99)), dropout(torch.ones(99)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_keeps_its_number_type_and_layout(dtype: torch.dtype) -> None:
    inputs = torch.ones(6, 10, dtype=dtype).transpose(0, 1)
    dropped = Dropout(0.5)(inputs)
    assert dropped.dtype == dtype
    assert dropped.shape == (10, 6)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}


def test_prints_its_rate() -> None:
    assert repr(Dropout(0.1)) == "Dropout(rate=0.1)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adding_is_dropping_and_then_adding(dtype: torch.dtype) -> None:
    dropout = Dropout(0.3)
    states, inputs = (torch.randn(40, 7, dtype=dtype, requires_grad=True) for _ in range(2))
    upstream = torch.randn(40, 7, dtype=dtype)
    outcomes = []
    for add in (dropout.add, lambda states, inputs: states + dropout(inputs)):
        torch.manual_seed(3)
        summed = add(states, inputs)
        outcomes.append((summed, *torch.autograd.grad(summed, (states, inputs), upstream)))
    for at_once, one_by_one in zip(*outcomes, strict=True):
        torch.testing.assert_close(at_once, one_by_one)


def test_adding_in_evaluation_drops_nothing() -> None:
    assert Dropout(0.5).eval().add(torch.ones(9), torch.ones(9)).tolist() == [2.0] * 9
    assert Dropout(0.0).train().add(torch.ones(9), torch.ones(9)).tolist() == [2.0] * 9
