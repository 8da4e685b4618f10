"""One process of two runs out of memory, counts wrong, hangs, dies: what all do, and say."""

import json
import os
import subprocess
import sys
import time

import pytest

from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.metrics import read_metrics

TWO = ("--processes", "2")

pytestmark = pytest.mark.slow


def events(run) -> list[str]:
    lines = read_metrics(run.workspace.metrics_file)
    return [line["text"] for line in lines if line["kind"] == "event"]


def last_state(run):
    return CheckpointFolder(run.workspace.checkpoints).list()[-1].state


def errors(stderr: str) -> list[str]:
    assert "Traceback" not in stderr, stderr
    return [line for line in stderr.splitlines() if line.startswith(("error:", "hint:"))]


OBJECTIVES = pytest.mark.parametrize(
    "objective",
    [
        "translation",
        *(pytest.param(f"{kind}-lm", marks=pytest.mark.patient) for kind in ("causal", "masked")),
    ],
)


@OBJECTIVES
def test_out_of_memory_on_one_of_two(tiny_run_of, train_with, objective: str) -> None:
    run = tiny_run_of(objective)
    done = train_with(run, "oom:1:3", *TWO)
    assert done.returncode == 0, done.stderr
    assert "step 3: out of memory on 1 of 2 processes: retrying in micro-b" in done.stderr
    assert "finished at step 12" in done.stderr
    # Halved once, for good, and kept in the checkpoint.
    assert 0 < last_state(run).micro_batch_tokens <= run.recipe.training.micro_batch_tokens / 2
    assert last_state(run).num_skipped == 0


@OBJECTIVES
@pytest.mark.patient
def test_a_loss_that_is_no_number_on_one_of_two(tiny_run_of, train_with, objective: str) -> None:
    run = tiny_run_of(objective)
    done = train_with(run, "nan:1:3", *TWO)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("step 3: update skipped: loss is NaN or infinite") == 1
    assert (last_state(run).step, last_state(run).num_skipped) == (12, 1)
    assert events(run) == ["update skipped: loss is NaN or infinite"]
    assert "1 update with a loss or gradient of NaN or infinity" in done.stderr


@OBJECTIVES
@pytest.mark.patient
def test_many_losses_in_a_row_take_training_back(tiny_run_of, train_with, objective: str) -> None:
    run = tiny_run_of(objective, "training.recovery.max_skipped=3")
    done = train_with(run, "nan:1:7-9", *TWO)
    assert done.returncode == 0, done.stderr
    said = (
        "step 9: 3 updates skipped in a row: rolling back to the checkpoint of step 5, "
        "with 0.5 times the learning rate from now on"
    )
    assert said in done.stderr
    state = last_state(run)
    assert (state.step, state.num_skipped, state.num_rollbacks) == (12, 3, 1)
    rates = {
        line["step"]: line["learning_rate"]
        for line in read_metrics(run.workspace.metrics_file)
        if line["kind"] == "train"
    }
    assert list(rates) == [2, 4, 6, 8, 10, 12]
    # peak * (warmup_steps / step)^0.5, halved.
    assert rates[12] == pytest.approx(0.5 * 3e-3 * (5 / 12) ** 0.5)


@pytest.mark.patient
def test_shards_are_saved_and_restored_by_two(tiny_run, train_with) -> None:
    settings = ("training.recovery.max_skipped=3", "training.validation.metric=loss")
    runs = [tiny_run(*settings, name="whole"), tiny_run(*settings, "training.shard=true")]
    for run in runs:
        done = train_with(run, "nan:1:7-9", *TWO)
        assert done.returncode == 0, done.stderr
        assert "rolling back to the checkpoint of step 5" in done.stderr
    assert last_state(runs[1]).num_rollbacks == 1
    # Without clipping, sums of two are the same bits.
    assert runs[1].weights() == runs[0].weights()


@pytest.mark.patient
def test_losses_that_are_never_numbers_end_training(tiny_run, train_with) -> None:
    run = tiny_run("training.recovery.max_skipped=2", "training.recovery.max_returns=0")
    done = train_with(run, "nan:0:7-9")
    assert done.returncode == 1
    [error, hint] = errors(done.stderr)
    assert error == "error: step 8: 2 updates skipped in a row: training has diverged"
    assert "training.clipping" in hint
    assert last_state(run).step == 5


@pytest.mark.patient
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("sleep:1:3", "worker 1 (process "),
        ("sleep:0:3", "worker 0 (process "),
    ],
)
def test_one_that_hangs_is_named_after_a_time_out(tiny_run, train_with, fault, said) -> None:
    run = tiny_run("training.stuck_after_seconds=10")
    began_at = time.monotonic()
    done = train_with(run, fault, *TWO)
    assert time.monotonic() - began_at < 60
    assert done.returncode == 1
    [error, hint] = errors(done.stderr)
    assert error.startswith(f"error: {said}")
    assert "is stuck: " in error
    assert "(step 3, micro-batch " in error
    assert "resume from the last checkpoint" in hint


@pytest.mark.patient
def test_one_that_is_frozen_is_named(tiny_run, train_with) -> None:
    began_at = time.monotonic()
    done = train_with(tiny_run(), "freeze:1:3", *TWO)
    # Half a minute of silence, and half a minute until the launcher kills it.
    assert time.monotonic() - began_at < 110
    assert done.returncode == 1
    [error, _] = errors(done.stderr)
    assert error.startswith("error: worker 1 (process ")
    assert "has not responded for 3" in error


@pytest.mark.parametrize(
    "shard", ["false", pytest.param("true", marks=pytest.mark.patient)], ids="shard={}".format
)
def test_one_that_dies_ends_all_and_is_named(tiny_run, train_with, shard: str) -> None:
    run = tiny_run(f"training.shard={shard}")
    began_at = time.monotonic()
    done = train_with(run, "die:1:7", *TWO)
    assert time.monotonic() - began_at < 60
    assert done.returncode == 1
    [error, hint] = errors(done.stderr)
    assert error.startswith("error: worker 1 (process ")
    assert error.endswith("died: SIGKILL")
    assert "resume from the last checkpoint" in hint
    assert last_state(run).step == 5


@OBJECTIVES
@pytest.mark.patient
def test_a_restart_goes_on_from_the_last_checkpoint_to_the_same_bits(
    tiny_run_of, train_with, objective: str
) -> None:
    run, whole = tiny_run_of(objective), tiny_run_of(objective, name="whole")
    done = train_with(run, "die:1:7", *TWO, "--max-restarts", "1")
    assert done.returncode == 0, done.stderr
    assert "warning: restart 1 of 1" in done.stderr
    assert "resuming from step 5" in done.stderr
    assert train_with(whole, "", *TWO).returncode == 0
    assert run.weights() == whole.weights()


@pytest.mark.patient
def test_restarts_come_to_an_end(tiny_run, train_with) -> None:
    run = tiny_run("training.recovery.max_skipped=1", "training.recovery.max_returns=0")
    done = train_with(run, "nan:0:3", "--max-restarts", "1")
    # The worker of the second start is spared by the fault.
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: step 3: 1 update skipped in a row") == 1


def test_the_facts_of_a_checkpoint_are_plain_json(tiny_run) -> None:
    run = tiny_run("training.max_steps=2")
    assert run.train()
    path = run.workspace.checkpoints / "step-00000002" / "state.json"
    facts = json.loads(path.read_text())
    assert {"format_version", "state", "score", "digests", "recipe"} <= facts.keys()


@pytest.mark.patient
def test_bare_torchrun_trains_as_mtkits_own_launcher_does(tiny_run) -> None:
    run, whole = tiny_run(), tiny_run(name="whole")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", "2", *run.cold_command("train")[1:]]
    done = subprocess.run(
        torchrun,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "= 2 x cpu x " in done.stderr
    subprocess.run(whole.cold_command("train", *TWO), stderr=subprocess.DEVNULL, check=True)
    assert run.weights() == whole.weights()
