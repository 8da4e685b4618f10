"""Stopped and resumed = never stopped, to the last bit."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest
import torch
from torch import nn

from mtkit.data.batches.updates import Update
from mtkit.data.prepare import prepare
from mtkit.errors import MtkitError
from mtkit.training import loop, loss_scale
from mtkit.training.checkpoint import TrainingState
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.learner import Learner
from mtkit.training.loop import Trainer
from mtkit.training.metrics import read_metrics
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.objectives.stored import TranslationBatches
from mtkit.training.update import Updater

WITHOUT_END = "training.max_steps=100000"
"""However late a busy machine sees a checkpoint, training still goes on."""
_SAME_EVERY_TIME = ("step", "epoch", "loss", "nll", "learning_rate", "target_tokens")


def logged(run) -> list[tuple]:
    """Returns what was measured while training, but for the time it took."""
    lines = read_metrics(run.workspace.metrics_file)
    return [
        tuple(line[key] for key in _SAME_EVERY_TIME) for line in lines if line["kind"] == "train"
    ]


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> Iterator[None]:
    """Drawing the learning curve takes longer than all else of so small a training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "draw", lambda _: None)
        yield


def train_in_two(run, stop_after: int) -> None:
    """Leaves a run trained to its end that was stopped once by Ctrl-C and resumed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, stop_after))
        assert not run.train()
    assert last_step(run) == stop_after
    assert run.train()


def prepare_both(run, other) -> None:
    """Prepares two runs of one recipe at once."""
    prepare(run.recipe, run.workspace)
    shutil.rmtree(other.workspace.root)
    shutil.copytree(run.workspace.root, other.workspace.root)


def last_facts(run) -> dict:
    """Returns what the last checkpoint says of itself."""
    return json.loads((max(run.workspace.checkpoints.glob("step-*")) / "state.json").read_text())


OTHERS = ("decoder-only", "causal-lm", "masked-lm", "denoising", "classification")
OBJECTIVES = pytest.mark.parametrize("objective", ["translation", *OTHERS], indirect=True)
"""Of the runs of a test, which are a translator's where it says nothing."""

FEW_OBJECTIVES = pytest.mark.parametrize(
    "objective",
    [
        "translation",
        *(pytest.param(kind, marks=pytest.mark.patient) for kind in OTHERS),
    ],
    indirect=True,
)
"""Of what is the same for every objective; each of them is stopped several times, in any case."""


@pytest.fixture
def objective(request: pytest.FixtureRequest) -> str:
    return getattr(request, "param", "translation")


@pytest.fixture
def tiny_run(tiny_run_of: Callable, objective: str) -> Callable:
    return partial(tiny_run_of, objective)


@pytest.fixture(scope="module")
def trained_once() -> dict:
    """What `never_stopped` keeps for all tests here: they only read it."""
    return {}


@pytest.fixture
def never_stopped(tiny_run: Callable, objective: str, trained_once: dict):
    if objective not in trained_once:
        run = tiny_run(name="never stopped")
        assert run.train()
        trained_once[objective] = run
    return trained_once[objective]


@pytest.mark.parametrize(
    "stop_after",
    [
        pytest.param(1, marks=pytest.mark.patient),
        pytest.param(4, marks=pytest.mark.patient),
        pytest.param(5, marks=pytest.mark.patient),
        pytest.param(7, marks=pytest.mark.patient),
    ],
)
def test_stopped_by_a_signal(tiny_run, never_stopped, stop_after, monkeypatch) -> None:
    run = tiny_run()
    monkeypatch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, stop_after))
    assert not run.train()
    assert max(run.workspace.checkpoints.iterdir()).name == f"step-{stop_after:08d}"
    monkeypatch.undo()
    assert run.train()
    assert run.weights() == never_stopped.weights()
    # A log line's loss is a mean since the line before, and a stop begins a new mean.
    if stop_after % run.recipe.training.log_every == 0:
        assert logged(run) == logged(never_stopped)


def interrupting(original: Callable, step_of_signal: int) -> Callable:
    """Returns a `learning_rate` that sends this process Ctrl-C while it works on one step."""

    def rate(schedule, step, **sizes):
        if step == step_of_signal:
            os.kill(os.getpid(), signal.SIGINT)
        return original(schedule, step, **sizes)

    return rate


@pytest.mark.parametrize(
    ("objective", "steps"),
    [
        ("translation", range(1, 12)),
        *((each, (1, 4, 5, 10)) for each in OTHERS),
        *(pytest.param(each, range(1, 12), marks=pytest.mark.patient) for each in OTHERS),
    ],
    indirect=["objective"],
)
def test_stopped_and_resumed_at_every_step(
    tiny_run, never_stopped, monkeypatch, steps: Sequence[int]
) -> None:
    run = tiny_run()
    for step in steps:
        with monkeypatch.context() as patch:
            patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, step))
            assert not run.train()
    assert run.train()
    assert run.weights() == never_stopped.weights()


def test_trained_further_than_the_recipe_first_said(tiny_run, never_stopped) -> None:
    assert tiny_run("training.max_steps=5").train()
    run = tiny_run()
    assert run.train()
    assert run.weights() == never_stopped.weights()


@OBJECTIVES
@pytest.mark.patient
def test_killed_at_a_moment_nobody_chose(tiny_run) -> None:
    run = tiny_run(WITHOUT_END)
    assert interrupt(run, signal.SIGKILL) == -signal.SIGKILL
    end = last_step(run) + 7
    # A draft that a kill left behind is no checkpoint.
    (run.workspace.checkpoints / f".step-{end:08d}.draft").mkdir()
    go_on = run.command("train", "--set", f"training.max_steps={end}")
    subprocess.run(go_on, check=True, stderr=subprocess.DEVNULL)
    never_stopped = tiny_run(f"training.max_steps={end}", name="never stopped")
    assert never_stopped.train()
    assert run.weights() == never_stopped.weights()
    assert (run.workspace.model / "model.safetensors").is_file()


@OBJECTIVES
@pytest.mark.patient
def test_two_processes_stopped_at_a_moment_nobody_chose(tiny_run) -> None:
    run = tiny_run(WITHOUT_END)
    assert interrupt(run, signal.SIGINT, "--processes", "2") == 75
    end = last_step(run) + 7
    never_stopped = tiny_run(name="never stopped")
    for each in (run, never_stopped):
        go_on = each.command("train", "--processes", "2", "--set", f"training.max_steps={end}")
        subprocess.run(go_on, check=True, stderr=subprocess.DEVNULL)
    assert run.weights() == never_stopped.weights()


def last_step(run) -> int:
    return int(max(run.workspace.checkpoints.glob("step-*")).name.removeprefix("step-"))


def interrupt(run, number: signal.Signals, *options: str) -> int:
    """Returns how `mtkit train` ends that is sent a signal once it has saved a checkpoint."""
    process = subprocess.Popen(run.cold_command("train", *options), stderr=subprocess.DEVNULL)
    try:
        give_up_at = time.monotonic() + 120
        while not any(run.workspace.checkpoints.glob("step-*")):
            assert time.monotonic() < give_up_at, "no checkpoint came"
            time.sleep(0.005)
        process.send_signal(number)
        return process.wait(timeout=120)
    finally:
        process.kill()


def test_another_seed_is_another_run(tiny_run, never_stopped) -> None:
    run = tiny_run("seed=2", name="other")
    prepare(run.recipe, run.workspace)
    assert run.train()
    assert run.weights() != never_stopped.weights()


SAMPLING = "tokenizer.sampling={alpha=0.2}"


def test_stopped_while_segmentations_are_sampled(tiny_run, never_stopped, monkeypatch) -> None:
    sampled, run = tiny_run(SAMPLING, name="sampled"), tiny_run(SAMPLING)
    prepare_both(sampled, run)
    assert sampled.train()
    assert sampled.weights() != never_stopped.weights()
    monkeypatch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, 7))
    assert not run.train()
    monkeypatch.undo()
    assert run.train()
    assert run.weights() == sampled.weights()
    assert logged(run)[4:] == logged(sampled)[4:]


@pytest.mark.parametrize("place", ["save", "record_score", "prune"])
def test_ended_on_the_way_to_a_scored_checkpoint(
    tiny_run, never_stopped, place, monkeypatch
) -> None:
    run = tiny_run()

    def end(*_: object, **__: object) -> None:
        raise SystemExit(place)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, place, end)
        with pytest.raises(SystemExit, match=place):
            run.train()
    assert run.train()
    assert run.weights() == never_stopped.weights()
    # Each checkpoint is measured once, however often it was begun.
    measured = [
        [
            {key: value for key, value in line.items() if key != "elapsed_seconds"}
            for line in read_metrics(each.workspace.metrics_file)
            if line["kind"] == "dev"
        ]
        for each in (run, never_stopped)
    ]
    assert measured[0] == measured[1]
    assert [line["step"] for line in measured[0]] == [5, 10, 12]


@FEW_OBJECTIVES
@pytest.mark.parametrize("stop_after", [pytest.param(4, marks=pytest.mark.patient), 7])
def test_stopped_with_a_moving_average(tiny_run, never_stopped, stop_after) -> None:
    moving = "training.moving_average.decay=0.9"
    whole, parts = tiny_run(moving, name="whole"), tiny_run(moving, name="parts")
    assert whole.train()
    train_in_two(parts, stop_after)
    assert parts.weights() == whole.weights()
    # What is released is another thing than what is trained, which the average doesn't touch.
    trained = whole.weights()["weights.safetensors"]
    assert trained == never_stopped.weights()["model.safetensors"]
    assert trained != whole.weights()["model.safetensors"]


@pytest.mark.patient
def test_stopped_while_gradients_are_clipped(tiny_run, never_stopped) -> None:
    clipping = ("training.clipping.max_norm=0.1", "training.log_every=1")
    whole, parts = tiny_run(*clipping, name="whole"), tiny_run(*clipping, name="parts")
    assert whole.train()
    train_in_two(parts, 4)
    assert parts.weights() == whole.weights()
    assert logged(parts) == logged(whole)
    lines = read_metrics(whole.workspace.metrics_file)
    assert all(line["gradient_norm"] > 0.1 for line in lines if line["kind"] == "train")
    assert whole.weights() != never_stopped.weights()


@pytest.mark.parametrize(
    "stop_after", [7, *(pytest.param(step, marks=pytest.mark.patient) for step in (3, 5))]
)
def test_patience_is_carried_over_a_stop(tiny_run, stop_after) -> None:
    settings = ("training.early_stopping.patience=3", "training.checkpoint_every=2")
    whole, parts = tiny_run(*settings, name="whole"), tiny_run(*settings, name="parts")
    assert whole.train()
    train_in_two(parts, stop_after)
    # So young a model translates nothing: BLEU is 0 at step 2, and no better at 4, 6 and 8.
    assert last_step(whole) == last_step(parts) == 8
    assert last_facts(parts)["state"]["num_without_best"] == 3
    assert parts.weights() == whole.weights()


def digests(run) -> dict[int, str]:
    """Returns the logged digest of the weights after each step."""
    lines = read_metrics(run.workspace.metrics_file)
    return {line["step"]: line["digest"] for line in lines if line["kind"] == "digest"}


def test_digests_of_every_step_are_those_of_a_run_never_stopped(tiny_run) -> None:
    logging = "training.log_digests=true"
    whole, parts = tiny_run(logging, name="whole"), tiny_run(logging, name="parts")
    assert whole.train()
    train_in_two(parts, 7)
    assert list(digests(whole)) == list(range(1, 13))
    assert digests(parts) == digests(whole)
    assert len(set(digests(whole).values())) == 12


def test_digests_tell_the_step_at_which_one_bit_was_another(tiny_run, monkeypatch) -> None:
    logging = "training.log_digests=true"
    sound, struck = tiny_run(logging, name="sound"), tiny_run(logging, name="struck")
    assert sound.train()
    update = Learner.update

    def strike(learner: Learner, rate: float) -> None:
        update(learner, rate)
        if learner.num_updates == 6:
            last = list(learner.model.parameters())[-1].data.view(-1)[-1:]
            last.view(torch.int32).bitwise_xor_(1)

    monkeypatch.setattr(Learner, "update", strike)
    assert struck.train()
    found, expected = digests(struck), digests(sound)
    assert [step for step in expected if found[step] != expected[step]] == list(range(6, 13))


@pytest.mark.patient
def test_checkpoints_by_the_clock_change_nothing(tiny_run, never_stopped) -> None:
    # A clock that is due at every update but those right behind a checkpoint.
    by_clock = "training.checkpoint_minutes=1e-6"
    whole, parts = tiny_run(by_clock, name="whole"), tiny_run(by_clock, name="parts")
    assert whole.train()
    train_in_two(parts, 7)
    for run in (whole, parts):
        assert run.weights() == never_stopped.weights()
        lines = read_metrics(run.workspace.metrics_file)
        saved = [line["step"] for line in lines if line["kind"] == "dev"]
        assert len(saved) > 3
        assert saved[-1] == 12


RECOVERING = (
    "training.max_steps=16",
    "training.checkpoint_every=2",
    "training.log_every=1",
    "training.recovery.max_skipped=3",
)
# Back to step 8 after three in a row; back to step 12 after three on both sides of the stop at 11.
STRUCK, STOPPED_AT = (7, 8, 9, 11, 12, 13), 11


def strike(patch: pytest.MonkeyPatch, steps: tuple[int, ...]) -> None:
    """Lets each of these steps come to a NaN in its gradient, the first time that it is made."""
    left = list(steps)
    make = Updater.make

    def make_struck(updater: Updater, step: int, *values, **settings):
        with pytest.MonkeyPatch.context() as inner:
            if step in left:
                left.remove(step)
                inner.setattr(nn.utils, "get_total_norm", lambda _: torch.tensor(math.nan))
            return make(updater, step, *values, **settings)

    patch.setattr(Updater, "make", make_struck)


def without_times(state: dict) -> dict:
    return {key: value for key, value in state.items() if not key.endswith("_seconds")}


@FEW_OBJECTIVES
def test_what_follows_from_updates_that_were_left_out_is_carried_over_a_stop(
    tiny_run, monkeypatch
) -> None:
    whole, parts = tiny_run(*RECOVERING, name="whole"), tiny_run(*RECOVERING, name="parts")
    with monkeypatch.context() as patch:
        strike(patch, STRUCK)
        assert whole.train()
    with monkeypatch.context() as patch:
        strike(patch, STRUCK)
        train_in_two(parts, STOPPED_AT)
    state = last_facts(whole)["state"]
    assert (state["num_rollbacks"], state["rate_factor"], state["num_skipped"]) == (2, 0.25, 6)
    assert without_times(last_facts(parts)["state"]) == without_times(state)
    assert logged(parts) == logged(whole)
    assert parts.weights() == whole.weights()


def test_training_goes_back_no_more_often_for_being_stopped(tiny_run, monkeypatch) -> None:
    run = tiny_run(*RECOVERING, "training.recovery.max_returns=1")
    strike(monkeypatch, STRUCK)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, STOPPED_AT))
        assert not run.train()
    with pytest.raises(MtkitError, match=r"3 updates skipped in a row after 1 rollback"):
        run.train()


def test_nothing_of_the_state_is_lost_on_resume(tiny_run, monkeypatch) -> None:
    # Nine or ten updates an epoch, so that the stop is within the second.
    settings = "training.moving_average.decay=0.9", "training.precision=fp16"
    run = tiny_run(*RECOVERING, *settings, "training.batch_tokens=700")
    saved, resumed = [], []
    save, make_updates = CheckpointFolder.save, Trainer._make_updates

    def note_saved(folder: CheckpointFolder, learner: Learner, state: TrainingState, **others):
        saved.append((state, [tensor.clone() for tensor in learner.tensors()]))
        return save(folder, learner, state, **others)

    def note_resumed(trainer: Trainer, state: TrainingState, *others):
        resumed.append((state, [tensor.clone() for tensor in trainer.learner.tensors()]))
        return make_updates(trainer, state, *others)

    strike(monkeypatch, STRUCK)
    monkeypatch.setattr(CheckpointFolder, "save", note_saved)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, STOPPED_AT))
        assert not run.train()
    state, tensors = saved[-1]
    # What is as at the start could be lost unseen.
    for field in dataclasses.fields(TrainingState):
        assert getattr(state, field.name) != field.default, field.name
    monkeypatch.setattr(Trainer, "_make_updates", note_resumed)
    assert run.train()
    [(found_state, found_tensors)] = resumed
    assert found_state == state
    assert all(map(torch.equal, found_tensors, tensors))


@FEW_OBJECTIVES
@pytest.mark.parametrize(
    ("precision", "stop_after"),
    [("bf16", 3), pytest.param("bf16", 7, marks=pytest.mark.patient), ("fp16", 6)],
)
def test_stopped_while_updates_are_computed_in_16_bits(
    tiny_run, never_stopped, monkeypatch, precision, stop_after
) -> None:
    monkeypatch.setattr(loss_scale, "_NUM_UPDATES_TO_GROW", 4)
    settings = (f"training.precision={precision}", "training.log_every=1")
    whole, parts = tiny_run(*settings, name="whole"), tiny_run(*settings, name="parts")
    assert whole.train()
    train_in_two(parts, stop_after)
    assert parts.weights() == whole.weights()
    assert logged(parts) == logged(whole)
    assert whole.weights() != never_stopped.weights()
    scales = [
        [
            line["loss_scale"]
            for line in read_metrics(run.workspace.metrics_file)
            if "loss_scale" in line
        ]
        for run in (whole, parts)
    ]
    # It grows after every fourth step: the count of updates is kept, too.
    grown = [2.0 ** (16 + step // 4) for step in range(1, 13)]
    assert scales == 2 * ([grown] if precision == "fp16" else [[]])


# Sampled ones are loaded in the same way, and segmented besides.
@pytest.mark.parametrize("sampling", [pytest.param((), marks=pytest.mark.patient), (SAMPLING,)])
def test_updates_that_are_loaded_ahead_as_for_a_gpu_are_the_same(
    tiny_run, monkeypatch, sampling
) -> None:
    settings = (*sampling, "training.batch_tokens=700")
    plain, ahead = tiny_run(*settings, name="plain"), tiny_run(*settings, name="ahead")
    if sampling:
        prepare_both(plain, ahead)
    assert plain.train()
    loaded = []

    def prefetch(updater: Updater, update: Update) -> None:
        updater._objective.batches.prefetch(update)
        loaded.append(update)

    monkeypatch.setattr(Updater, "_prefetch", prefetch)
    train_in_two(ahead, 7)
    assert len(loaded) == 12
    # Over an epoch's end, too.
    assert loaded[-1].epoch > 0
    assert ahead.weights() == plain.weights()


@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm", "denoising"], indirect=True)
def test_text_that_is_loaded_ahead_as_for_a_gpu_is_the_same(
    tiny_run, never_stopped, monkeypatch
) -> None:
    def prefetch(updater: Updater, update: Update) -> None:
        updater._objective.batches.prefetch(update)

    monkeypatch.setattr(Updater, "_prefetch", prefetch)
    run = tiny_run()
    train_in_two(run, 7)
    assert run.weights() == never_stopped.weights()


def test_a_micro_batch_that_was_fitted_to_memory_stays(tiny_run, monkeypatch) -> None:
    wanted = "training.micro_batch_tokens=512"
    roomy = tiny_run(wanted, name="roomy")
    assert roomy.train()
    whole, parts = tiny_run(wanted, name="whole"), tiny_run(wanted, name="parts")
    with monkeypatch.context() as patch:
        largest = TranslationBatches.largest

        def largest_in_little_memory(batches: TranslationBatches, limit: int):
            if limit > 500:
                raise torch.OutOfMemoryError("injected")
            return largest(batches, limit)

        patch.setattr(TranslationBatches, "largest", largest_in_little_memory)
        assert whole.train()
        patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, 7))
        assert not parts.train()
    # Memory is no longer short, and nothing is fitted anew.
    assert parts.train()
    for run, micro_batch_tokens in ((roomy, 512), (whole, 256), (parts, 256)):
        assert last_facts(run)["state"]["micro_batch_tokens"] == micro_batch_tokens
    assert parts.weights() == whole.weights()
    # Other passes draw other dropout masks.
    assert parts.weights() != roomy.weights()


def test_a_guided_head_is_resumed_and_chosen(tiny_run) -> None:
    settings = (
        *("training.guided_alignment.at=input", "training.guided_alignment.head=2"),
        "training.max_steps=9",
    )
    runs = [tiny_run(*settings, name=name) for name in ("stopped", "never stopped")]
    prepare_both(*runs)
    train_in_two(runs[0], 7)
    assert runs[1].train()
    assert runs[0].weights() == runs[1].weights()
    # A decoder of one layer; no other head is looked for.
    chosen = json.loads((runs[0].workspace.model / "alignment.json").read_text())
    assert chosen == {"layer": 1, "head": 2, "at": "input"}


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        pytest.param("translation", (), marks=pytest.mark.patient),
        ("translation", ("training.guided_alignment.head=2",)),
        pytest.param("translation", ("training.precision=bf16",), marks=pytest.mark.patient),
        pytest.param("decoder-only", (), marks=pytest.mark.patient),
        ("causal-lm", ()),
        pytest.param("denoising", (), marks=pytest.mark.patient),
    ],
)
def test_r_drop_is_resumed(tiny_run_of, objective: str, settings: tuple[str, ...]) -> None:
    settings = ("training.r_drop.alpha=5", "training.max_steps=9", *settings)
    names = ("stopped", "never stopped")
    runs = [tiny_run_of(objective, *settings, name=name) for name in names]
    if any("guided" in setting for setting in settings):
        prepare_both(*runs)
    train_in_two(runs[0], 7)
    assert runs[1].train()
    assert runs[0].weights() == runs[1].weights()
    lines = read_metrics(runs[1].workspace.metrics_file)
    assert all(line["divergence"] > 0.0 for line in lines if line["kind"] == "train")
    assert not any("divergence" in line for line in lines if line["kind"] == "dev")
