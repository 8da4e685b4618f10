"""Training on a GPU: it learns, resumes, and agrees with the processor to rounding."""

import pytest
import torch

from mtkit.training.metrics import read_metrics
from mtkit.training.train import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]

NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")


def losses(run) -> list[float]:
    lines = read_metrics(run.workspace.metrics_file)
    return [line["loss"] for line in lines if line["kind"] == "train"]


def test_fp32_agrees_with_the_processor(tiny_run) -> None:
    runs = [tiny_run(*NO_DROPOUT, name=device) for device in ("cpu", "cuda")]
    for run, device in zip(runs, ("cpu", "cuda"), strict=True):
        assert train(run.recipe, run.workspace, device=device)
    assert losses(runs[1]) == pytest.approx(losses(runs[0]), rel=1e-3)


def test_bf16_is_near_fp32(tiny_run) -> None:
    runs = [
        tiny_run(*NO_DROPOUT, f"training.precision={precision}", name=precision)
        for precision in ("fp32", "bf16")
    ]
    for run in runs:
        assert train(run.recipe, run.workspace, device="cuda")
    assert losses(runs[1]) == pytest.approx(losses(runs[0]), rel=1e-2)


def test_stopped_and_resumed_goes_on(tiny_run) -> None:
    whole, parts = tiny_run(name="whole"), tiny_run("training.max_steps=6", name="parts")
    assert train(whole.recipe, whole.workspace, device="cuda")
    assert train(parts.recipe, parts.workspace, device="cuda")
    parts = tiny_run(name="parts")
    assert train(parts.recipe, parts.workspace, device="cuda")
    # Sums on a GPU come in any order, so that bits may differ where numbers don't.
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-3)


def test_dropout_is_drawn_anew_at_each_step_and_alike_in_each_run(tiny_run) -> None:
    runs = [tiny_run("model.dropout=0.5", name=name) for name in ("first", "second")]
    for run in runs:
        assert train(run.recipe, run.workspace, device="cuda")
    assert losses(runs[0]) == pytest.approx(losses(runs[1]), rel=1e-3)
