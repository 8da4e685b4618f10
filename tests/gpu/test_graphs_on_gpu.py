"""Passes that were recorded and are replayed give what passes give that are run."""

from functools import partial

import pytest
import torch

from mtkit.data.batches.collate import collate_pairs, pack_side
from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS
from mtkit.training.graphs import CapturedPasses
from mtkit.training.loss import measure_translation, projected_cross_entropy
from mtkit.training.metrics import read_metrics
from mtkit.training.train import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, found none"),
]

VOCAB_SIZE = 53


def build(dropout: float) -> EncoderDecoder:
    torch.manual_seed(31)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 64, "d_ff": 128}
    section = Model(**sizes, num_heads=4, dropout=dropout)
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).to("cuda", torch.bfloat16)


def draw(seed: int):
    generator = torch.Generator().manual_seed(seed)
    sides = []
    for _ in range(2):
        lengths = torch.randint(1, 20, (60,), generator=generator).tolist()
        draws = [torch.randint(4, VOCAB_SIZE, (n,), generator=generator) for n in lengths]
        sides.append(Ragged.of([[*row.tolist(), EOS] for row in draws]))
    return collate_pairs(*sides, partial(pack_side, row_sizes=[6] * 10 + [0, 0], width_step=128))


def run_scaled(model: EncoderDecoder, r_drop: float | None = None):
    def run(batch, scale):
        sums = measure_translation(model, batch, label_smoothing=0.1, r_drop=r_drop)
        (sums.loss * scale).backward()
        return torch.stack((sums.loss.detach(), sums.negative_log_likelihood))

    return run


def test_replayed_passes_have_the_sums_and_gradients_of_the_batch_itself() -> None:
    model = build(dropout=0.0)
    recorded = CapturedPasses(model, run_scaled(model))
    for seed in (1, 2, 3, 1, 4, 2):
        batch = draw(seed)
        model.zero_grad(set_to_none=True)
        expected = run_scaled(model)(batch.to(torch.device("cuda")), 0.25)
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        model.zero_grad(set_to_none=True)
        found = recorded.run(batch.fill(24).to(torch.device("cuda")), 0.25)
        torch.testing.assert_close(found, expected, rtol=2**-9, atol=0.0)
        for name, weight in model.named_parameters():
            difference = (weight.grad - gradients[name]).float().norm()
            assert difference <= 16 * 2**-9 * gradients[name].float().norm() + 1e-6, name
    # A weight that changes in place is seen.
    with torch.no_grad():
        model.output_embedding.weight.mul_(2.0)
    changed = recorded.run(draw(1).fill(24).to(torch.device("cuda")), 0.25)
    direct = run_scaled(model)(draw(1).to(torch.device("cuda")), 0.25)
    torch.testing.assert_close(changed, direct, rtol=2**-9, atol=0.0)


@pytest.mark.parametrize("r_drop", [None, 5.0])
def test_dropout_is_drawn_for_each_replay_and_from_the_seed_alone(r_drop) -> None:
    model = build(dropout=0.5)
    recorded = CapturedPasses(model, run_scaled(model, r_drop))
    losses = []
    for seed in (5, 5, 6, 7, 5):
        torch.manual_seed(seed)
        filled = draw(1).fill(24).to(torch.device("cuda"))
        losses.append(recorded.run(filled, 1.0)[0].item())
    assert losses[0] == losses[1] == losses[4]
    assert len(set(losses)) == 3


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_training_by_graphs_learns_what_one_without_learns(tiny_run, precision) -> None:
    settings = ("model.dropout=0", f"training.precision={precision}")
    losses = []
    for graphs in ("false", "true"):
        run = tiny_run(*settings, f"training.cuda_graphs={graphs}", name=graphs)
        assert train(run.recipe, run.workspace, device="cuda")
        lines = read_metrics(run.workspace.metrics_file)
        losses.append([line["loss"] for line in lines if line["kind"] == "train"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_loss_of_what_is_too_improbable_for_its_numbers_is_the_cpu_s(dtype) -> None:
    torch.manual_seed(32)
    states, weight = torch.randn(6, 8) * 9.0, torch.randn(40, 8) * 9.0
    targets = (states @ weight.T).argmin(dim=1)
    targets[3:] = (states @ weight.T).argmax(dim=1)[3:]
    halves = states.to(dtype), weight.to(dtype)
    expected = projected_cross_entropy(
        *(half.double() for half in halves), targets, label_smoothing=0.1
    )
    found = projected_cross_entropy(
        *(half.cuda() for half in halves), targets.cuda(), label_smoothing=0.1
    )
    for ours, theirs in zip(found[:2], expected[:2], strict=True):
        assert ours.item() == pytest.approx(
            theirs.item(), rel=2**-8 if dtype != torch.float32 else 1e-5
        )
