"""Training on a GPU: it learns, resumes, survives faults, and agrees with the processor."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit.inference.translator import Translator
from mtkit.training import loop
from mtkit.training.metrics import read_metrics
from mtkit.training.train import train
from mtkit.training.update import Objective

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]

NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")
MOVING_AVERAGE = "training.moving_average.decay=0.9"
INJECTED = Path(__file__).parent.parent / "faults" / "injected"


def losses(run) -> list[float]:
    lines = read_metrics(run.workspace.metrics_file)
    return [line["loss"] for line in lines if line["kind"] == "train"]


def last_checkpoint(run) -> Path:
    return max(run.workspace.checkpoints.glob("step-*"))


def last_state(run) -> dict:
    return json.loads((last_checkpoint(run) / "state.json").read_text())["state"]


def train_on_gpu(run) -> bool:
    return train(run.recipe, run.workspace, device="cuda")


def at_each_step(monkeypatch, act: Callable[[int], None]) -> None:
    """Lets something happen before each update; `act` is told its step."""
    learning_rate = loop.learning_rate

    def rate(schedule, step, **sizes):
        act(step)
        return learning_rate(schedule, step, **sizes)

    monkeypatch.setattr(loop, "learning_rate", rate)


@pytest.fixture
def short_of_memory() -> Iterator[Callable[[int], None]]:
    """A function that leaves this process so many bytes of the GPU."""

    def limit(num_bytes: int) -> None:
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(num_bytes / total)

    yield limit
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_fp32_agrees_with_the_processor(tiny_run) -> None:
    runs = [tiny_run(*NO_DROPOUT, name=device) for device in ("cpu", "cuda")]
    for run, device in zip(runs, ("cpu", "cuda"), strict=True):
        assert train(run.recipe, run.workspace, device=device)
    assert losses(runs[1]) == pytest.approx(losses(runs[0]), rel=1e-3)


def test_16_bits_are_near_fp32(tiny_run) -> None:
    runs = [
        tiny_run(*NO_DROPOUT, f"training.precision={precision}", name=precision)
        for precision in ("fp32", "bf16", "fp16")
    ]
    for run in runs:
        assert train_on_gpu(run)
    assert losses(runs[1]) == pytest.approx(losses(runs[0]), rel=1e-2)
    assert losses(runs[2]) == pytest.approx(losses(runs[0]), rel=1e-2)


def test_recomputed_layers_draw_the_same_dropout(tiny_run) -> None:
    usual, again = tiny_run(name="usual"), tiny_run("training.recompute=true", name="again")
    assert train_on_gpu(usual)
    assert train_on_gpu(again)
    assert losses(again) == pytest.approx(losses(usual), rel=1e-3)


def test_trained_further_goes_on(tiny_run) -> None:
    whole, parts = tiny_run(name="whole"), tiny_run("training.max_steps=6", name="parts")
    assert train_on_gpu(whole)
    assert train_on_gpu(parts)
    parts = tiny_run(name="parts")
    assert train_on_gpu(parts)
    # Sums on a GPU come in any order, so that bits may differ where numbers don't.
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_stopped_and_resumed_with_a_moving_average(tiny_run, precision, monkeypatch) -> None:
    settings = (MOVING_AVERAGE, f"training.precision={precision}")
    whole, parts = tiny_run(*settings, name="whole"), tiny_run(*settings, name="parts")
    assert train_on_gpu(whole)

    def interrupt(step: int) -> None:
        if step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        at_each_step(patch, interrupt)
        assert not train_on_gpu(parts)
    assert last_state(parts)["step"] == 6
    assert train_on_gpu(parts)
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-3 if precision == "fp32" else 1e-2)
    # A resume that lost the moments, the average or the place in the data would be further off
    # than twelve updates of rounding.
    for name in ("model.safetensors", "weights.safetensors"):
        found, expected = (load_file(last_checkpoint(run) / name) for run in (parts, whole))
        for key, weight in expected.items():
            assert found[key].dtype == torch.float32
            torch.testing.assert_close(found[key], weight, rtol=0.0, atol=5e-3)


def test_a_moving_average_in_bf16_is_what_is_released(tiny_run) -> None:
    run = tiny_run(*NO_DROPOUT, MOVING_AVERAGE, "training.precision=bf16")
    plain = tiny_run(*NO_DROPOUT, "training.precision=bf16", name="plain")
    assert train_on_gpu(run)
    assert train_on_gpu(plain)
    # It changes nothing in what is trained.
    assert losses(run) == pytest.approx(losses(plain), rel=1e-2)
    averaged = load_file(last_checkpoint(run) / "model.safetensors")
    trained = load_file(last_checkpoint(run) / "weights.safetensors")
    assert all(weight.dtype == torch.float32 for weight in (averaged | trained).values())
    assert any(not torch.equal(averaged[name], trained[name]) for name in trained)
    assert (run.workspace.model / "model.safetensors").read_bytes() in {
        (checkpoint / "model.safetensors").read_bytes()
        for checkpoint in run.workspace.checkpoints.glob("step-*")
    }
    translator = Translator(run.workspace.model, device="cuda")
    assert translator.translate("The man sleeps.")


def test_dropout_is_drawn_anew_at_each_step_and_alike_in_each_run(tiny_run) -> None:
    runs = [tiny_run("model.dropout=0.5", name=name) for name in ("first", "second")]
    for run in runs:
        assert train_on_gpu(run)
    assert losses(runs[0]) == pytest.approx(losses(runs[1]), rel=1e-3)


def test_a_micro_batch_is_fitted_to_what_memory_there_is(tiny_run, short_of_memory) -> None:
    # Gigabytes in one pass, of which the model and cuBLAS's own buffers are a small part.
    settings = ("training.micro_batch_tokens=auto", "training.batch_tokens=400000")
    roomy, short = tiny_run(*settings, name="roomy"), tiny_run(*settings, name="short")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert train_on_gpu(roomy)
    needed = torch.cuda.max_memory_reserved()
    assert needed > 1 << 30
    short_of_memory(needed // 3)
    torch.cuda.reset_peak_memory_stats()
    assert train_on_gpu(short)
    assert torch.cuda.max_memory_reserved() <= needed // 3
    sizes = [last_state(run)["micro_batch_tokens"] for run in (roomy, short)]
    # All that one process has of an update, with room for its unevenness.
    assert 400_000 <= sizes[0] <= 500_000
    assert sizes[1] in {sizes[0] // 4, sizes[0] // 8}


def test_memory_that_runs_out_under_way_is_survived(tiny_run, monkeypatch) -> None:
    whole, struck = tiny_run(*NO_DROPOUT, name="whole"), tiny_run(*NO_DROPOUT, name="struck")
    assert train_on_gpu(whole)
    loss = Objective.loss
    at_step, struck_at = [0], []

    def run_out(objective: Objective, batch):
        sums = loss(objective, batch)
        if at_step[0] == 7 and not struck_at:
            struck_at.append(7)
            # More than any GPU has.
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        return sums

    with monkeypatch.context() as patch:
        at_each_step(patch, lambda step: at_step.__setitem__(0, step))
        patch.setattr(Objective, "loss", run_out)
        assert train_on_gpu(struck)
    assert struck_at == [7]
    state = last_state(struck)
    assert (state["step"], state["num_skipped"]) == (12, 0)
    assert 0 < state["micro_batch_tokens"] <= 128
    assert last_state(whole)["micro_batch_tokens"] == 256
    # The update was made all the same, in smaller passes.
    assert losses(struck) == pytest.approx(losses(whole), rel=1e-3)


def test_a_loss_that_is_no_number_is_left_out(tiny_run, monkeypatch) -> None:
    run = tiny_run()
    loss = Objective.loss
    at_step = [0]

    def spoil(objective: Objective, batch):
        sums = loss(objective, batch)
        return sums._replace(loss=sums.loss * torch.nan) if at_step[0] == 3 else sums

    with monkeypatch.context() as patch:
        at_each_step(patch, lambda step: at_step.__setitem__(0, step))
        patch.setattr(Objective, "loss", spoil)
        assert train_on_gpu(run)
    assert (last_state(run)["step"], last_state(run)["num_skipped"]) == (12, 1)
    events = [m["text"] for m in read_metrics(run.workspace.metrics_file) if m["kind"] == "event"]
    assert events == ["update skipped: loss is NaN or infinite"]
    moments = load_file(last_checkpoint(run) / "optimizer.safetensors")
    assert int(moments["step"]) == 11
    weights = load_file(last_checkpoint(run) / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in (weights | moments).values())


@pytest.mark.slow
def test_memory_does_not_grow(tiny_run, monkeypatch) -> None:
    steps = ("training.max_steps=200", "training.checkpoint_every=200")
    run = tiny_run(MOVING_AVERAGE, *steps)
    allocated: list[int] = []
    at_each_step(monkeypatch, lambda _: allocated.append(torch.cuda.memory_allocated()))
    assert train_on_gpu(run)
    assert len(allocated) == 200
    # Between updates there are weights, moments, average and gradients alone. The smallest leak is
    # 512 bytes, the allocator's unit.
    assert max(allocated[100:]) <= max(allocated[10:100])


def test_a_worker_that_dies_is_started_again(tiny_run) -> None:
    run, whole = tiny_run(name="run"), tiny_run(name="whole")
    done = subprocess.run(
        run.command("train", "--gpus", "1", "--max-restarts", "1"),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(INJECTED), os.environ.get("PYTHONPATH", "")]),
            "MTKIT_TEST_FAULT": "die:0:7",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "warning: restart 1 of 1" in done.stderr
    assert "resuming from step 5" in done.stderr
    assert last_state(run)["step"] == 12
    assert train_on_gpu(whole)
    # A line's loss is a mean since the line before, and a resume begins a new mean.
    assert losses(run)[3:] == pytest.approx(losses(whole)[3:], rel=1e-3)
