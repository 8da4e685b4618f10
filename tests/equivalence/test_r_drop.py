"""R-Drop's loss and gradients are torch's: cross entropies and `kl_div` of two passes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import (
    collate_joined,
    collate_text,
    lay_out,
    lay_out_side,
    pack_side,
)
from mtkit.data.batches.ragged import Ragged
from mtkit.network import CausalLanguageModel
from mtkit.recipe.model import Model
from mtkit.training import cross_entropy
from mtkit.training.loss import (
    AlignmentGuide,
    LossSums,
    measure_causal,
    measure_joined,
    measure_translation,
    projected_cross_entropy,
    select_predicting,
)

from .test_guided_alignment import (
    FLAT,
    SOURCES,
    TARGETS,
    VOCAB_SIZE,
    collate,
    find_gradients,
    make_model,
)

ALPHA, SMOOTHING, SEED = 3.0, 0.1, 8
DROPOUT = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.1}


def by_torch(first: Tensor, second: Tensor, targets: Tensor, smoothing: float) -> list[Tensor]:
    """Returns loss, negative log-likelihood and divergence from both passes' logits.

    The paper's loss is CE1 + CE2 + alpha * (KL12 + KL21) / 2 (section 2.1); ours is half of it.
    """
    cross, of_sums = nn.functional.cross_entropy, {"reduction": "sum"}
    smoothed = {"label_smoothing": smoothing, **of_sums}
    passes = [torch.log_softmax(logits, dim=1) for logits in (first, second)]
    kl = sum(
        nn.functional.kl_div(ours, theirs, log_target=True, **of_sums)
        for ours, theirs in (passes, passes[::-1])
    )
    ce = cross(first, targets, **smoothed) + cross(second, targets, **smoothed)
    nll = cross(first, targets, **of_sums) + cross(second, targets, **of_sums)
    return [(ce + ALPHA * kl / 2) / 2, nll / 2, ALPHA * kl / 4]


def draw(dtype: torch.dtype = torch.float64, spread: float = 0.5) -> tuple[Tensor, ...]:
    """Returns pairs of states of the same token, weights and targets."""
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(37, 1, 16, generator=generator)
    states = (states + spread * torch.randn(37, 2, 16, generator=generator)).flatten(0, 1)
    weight = torch.randn(29, 16, generator=generator)
    targets = torch.randint(29, (37,), generator=generator)
    return states.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("num_at_once", [1, 5, 1000])
def test_loss_and_gradients_of_pairs_are_torch_s(smoothing, num_at_once, monkeypatch) -> None:
    states, weight, targets = draw()
    monkeypatch.setitem(cross_entropy._CHUNK_BYTES, "cpu", num_at_once * len(weight) * 8)
    ours = projected_cross_entropy(
        states,
        weight,
        targets.repeat_interleave(2),
        label_smoothing=smoothing,
        divergence_weight=ALPHA / 2,
    )
    logits = states @ weight.T
    loss, nll, divergence = by_torch(logits[::2], logits[1::2], targets, smoothing)
    expected = torch.autograd.grad(2 * loss / 7, (states, weight))
    found = torch.autograd.grad(ours.loss / 7, (states, weight))
    torch.testing.assert_close(ours.loss, 2 * loss, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(ours.negative_log_likelihood, 2 * nll, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(ours.divergence, 2 * divergence, rtol=1e-10, atol=0.0)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.0, atol=1e-10)


def test_two_tokens_on_paper() -> None:
    # P1 = 1/3, 2/3 and P2 = 1/2, 1/2: KL(P1 || P2) = 1/3 ln 2/3 + 2/3 ln 4/3, KL(P2 || P1) =
    # 1/2 ln 3/2 + 1/2 ln 3/4; together (2/3 - 1/2) ln 2.
    weight = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    states = torch.tensor([[2.0], [1.0]], dtype=torch.float64).log()
    sums = projected_cross_entropy(
        states, weight, torch.tensor([1, 1]), label_smoothing=0.0, divergence_weight=6.0
    )
    two = torch.tensor(2.0, dtype=torch.float64).log().item()
    assert sums.divergence.item() == pytest.approx(two, rel=1e-12)
    nll = torch.tensor(3.0, dtype=torch.float64).log().item()
    assert sums.loss.item() == pytest.approx(nll + two, rel=1e-12)


def test_in_bfloat16_pairs_are_near_and_extreme_logits_stay_finite() -> None:
    # bfloat16 has 8 binary digits; logits of about 4 are off by 2^-7, and dropout moves them by 2.
    exact = draw()
    halves = draw(torch.bfloat16)
    results = []
    for states, weight, targets in (exact, halves):
        sums = projected_cross_entropy(
            states,
            weight,
            targets.repeat_interleave(2),
            label_smoothing=SMOOTHING,
            divergence_weight=ALPHA / 2,
        )
        gradients = torch.autograd.grad(sums.loss, (states, weight))
        results.append((sums, [gradient.double() for gradient in gradients]))
    (expected, exact_gradients), (found, gradients) = results
    assert found.loss.dtype == torch.float32
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=2**-7)
    assert found.divergence.item() == pytest.approx(expected.divergence.item(), rel=2**-6)
    for mine, theirs in zip(gradients, exact_gradients, strict=True):
        assert (mine - theirs).norm() <= 2**-5 * theirs.norm()
    states = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    sums = projected_cross_entropy(
        states, weight, torch.tensor([0, 0]), label_smoothing=0.0, divergence_weight=1.0
    )
    # By hand: logits differ by 20,000 in each, so that (P1 - P2) (g) is 20,000 twice.
    assert sums.divergence.item() == pytest.approx(4e4)
    assert all(g.isfinite().all() for g in torch.autograd.grad(sums.loss, (states, weight)))


def run_twice(run: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(SEED)
    return run(), run()


def compare(model: nn.Module, found: LossSums, logits: tuple[Tensor, Tensor], targets) -> None:
    """Checks sums and all gradients against torch's from both passes' logits."""
    loss, nll, divergence = by_torch(*logits, targets, SMOOTHING)
    assert divergence > 0.01 * loss, "other masks"
    expected = find_gradients(model, loss)
    torch.testing.assert_close(found.loss, loss, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(found.negative_log_likelihood, nll, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(found.divergence, divergence, rtol=1e-10, atol=0.0)
    for name, gradient in find_gradients(model, found.loss).items():
        torch.testing.assert_close(gradient, expected[name], rtol=0.0, atol=1e-10, msg=name)


@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("kind", ["padded", "packed", "grids"])
def test_a_translator_s_loss_is_of_two_passes(kind: str, output_bias: bool) -> None:
    model = make_model(**DROPOUT, output_bias=output_bias)
    if output_bias:
        nn.init.normal_(model.output_bias)
    batch = collate(kind)
    inputs = (
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
    )  # fmt: skip
    logits = run_twice(lambda: model.project(batch.target_layout.select_tokens(model(*inputs))))
    torch.manual_seed(SEED)
    found = measure_translation(model, batch, label_smoothing=SMOOTHING, r_drop=ALPHA)
    compare(model, found, logits, batch.target_outputs)


def test_language_models_and_decoder_only_translators() -> None:
    torch.manual_seed(4)
    sizes = {"num_decoder_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
    model = CausalLanguageModel(Model(**sizes, **DROPOUT), VOCAB_SIZE).double()
    text = collate_text(TARGETS, lay_out_side(TARGETS.lengths, [1, 2, 1]))
    logits = run_twice(
        lambda: model.project(text.layout.select_tokens(model(text.inputs, text.layout)))
    )
    torch.manual_seed(SEED)
    found = measure_causal(model, text, label_smoothing=SMOOTHING, r_drop=ALPHA)
    compare(model, found, logits, text.outputs)
    joined = collate_joined(SOURCES, TARGETS, pack_side(SOURCES.lengths + TARGETS.lengths))
    logits = run_twice(
        lambda: model.project(select_predicting(model(joined.inputs, joined.layout), joined))
    )
    torch.manual_seed(SEED)
    found = measure_joined(model, joined, label_smoothing=SMOOTHING, r_drop=ALPHA)
    compare(model, found, logits, joined.outputs)


def test_without_dropout_it_is_the_loss_of_one_pass() -> None:
    model = make_model()
    batch = collate("grids")
    plain = measure_translation(model, batch, label_smoothing=SMOOTHING)
    expected = find_gradients(model, plain.loss)
    found = measure_translation(model, batch, label_smoothing=SMOOTHING, r_drop=ALPHA)
    assert found.divergence.item() == 0.0
    torch.testing.assert_close(found.loss, plain.loss, rtol=1e-12, atol=0.0)
    for name, gradient in find_gradients(model, found.loss).items():
        torch.testing.assert_close(gradient, expected[name], rtol=0.0, atol=1e-12, msg=name)


def test_padding_that_predicts_has_no_divergence() -> None:
    # The same rows, and so the same masks; only the padding's outputs are in one of them.
    model = make_model(**DROPOUT)
    sums = []
    for batch in (collate("packed"), collate("packed").fill(12)):
        torch.manual_seed(SEED)
        sums.append(measure_translation(model, batch, label_smoothing=SMOOTHING, r_drop=ALPHA))
    expected = find_gradients(model, sums[0].loss)
    for ours, theirs in zip(sums[1][:2], sums[0][:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(sums[1].divergence, sums[0].divergence, rtol=1e-10, atol=0.0)
    for name, gradient in find_gradients(model, sums[1].loss).items():
        torch.testing.assert_close(gradient, expected[name], rtol=0.0, atol=1e-10, msg=name)


def test_a_batch_s_sums_are_those_of_its_parts() -> None:
    # Masks depend on the batch, so that another difference between the passes takes their place.
    model = make_model()
    num_passes = [0]

    def disturb(_: nn.Module, __: object, states: Tensor) -> Tensor:
        num_passes[0] += 1
        return states * (1.0 - 2.0 * (num_passes[0] % 2))

    model.encoder.register_forward_hook(disturb)

    def measure(batch) -> LossSums:
        return measure_translation(model, batch, label_smoothing=SMOOTHING, r_drop=ALPHA)

    whole = measure(collate("grids"))
    parts = []
    for rows in (slice(0, 1), slice(1, 3), slice(3, 4)):
        sides = [Ragged.of(side.to_lists()[rows]) for side in (SOURCES, TARGETS)]
        parts.append(measure(lay_out(*sides, [len(sides[0])])))
    assert whole.divergence > 0.01 * whole.loss
    for ours, theirs in (
        (whole.loss, sum(part.loss for part in parts)),
        (whole.divergence, sum(part.divergence for part in parts)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("kind", ["padded", "packed", "grids"])
def test_a_guided_head_learns_from_the_mean_of_both_passes(kind: str) -> None:
    guide, plain = AlignmentGuide(2, 1, 0.7), AlignmentGuide(2, 1, 0.0)
    model = make_model(**DROPOUT)
    batch = collate(kind).link(FLAT, first_row=0)

    def measure(guide: AlignmentGuide, **options: float) -> LossSums:
        return measure_translation(model, batch, label_smoothing=SMOOTHING, guide=guide, **options)

    # What the head adds to each of two single passes, with the same masks.
    added = []
    torch.manual_seed(SEED)
    for _ in range(2):
        state = torch.get_rng_state()
        with_head = measure(guide).loss
        torch.set_rng_state(state)
        added.append(with_head - measure(plain).loss)
    torch.manual_seed(SEED)
    found = measure(guide, r_drop=ALPHA)
    torch.manual_seed(SEED)
    without = measure(plain, r_drop=ALPHA)
    torch.testing.assert_close(found.loss, without.loss + sum(added) / 2, rtol=1e-10, atol=0.0)
    assert abs(added[0] - added[1]) > 1e-3
