"""The front door of training: what it leaves, says and refuses."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from mtkit.data.prepare import prepare
from mtkit.errors import MtkitError
from mtkit.inference.translator import Translator
from mtkit.model.config import read_settings
from mtkit.pipeline.hardware import Hardware
from mtkit.pipeline.run import run as run_all
from mtkit.pipeline.translate import load_run, with_length_ratio
from mtkit.training import loop
from mtkit.training.averaging.average import update_model
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.metrics import read_metrics
from mtkit.training.schedule import learning_rate
from mtkit.training.train import is_trained, is_trained_without_checkpoints


def test_what_a_finished_training_leaves(tiny_run, capsys) -> None:
    run = tiny_run()
    assert not is_trained(run.recipe, run.workspace)
    assert run.train()
    assert is_trained(run.recipe, run.workspace)
    workspace = run.workspace
    metrics = read_metrics(workspace.metrics_file)
    assert [line["step"] for line in metrics if line["kind"] == "train"] == [2, 4, 6, 8, 10, 12]
    dev = [line for line in metrics if line["kind"] == "dev"]
    assert [line["step"] for line in dev] == [5, 10, 12]
    assert all({"loss", "nll", "perplexity", "bleu", "chrf"} <= line.keys() for line in dev)
    assert workspace.curves.is_file()
    card = (workspace.model / "README.md").read_text()
    assert "- sentence pairs: 300\n- updates: " in card
    manifest = workspace.read_manifest()
    assert manifest["train"]["seed"] == 1
    assert "torch" in manifest["train"]["environment"]
    said = capsys.readouterr().err
    # Three development sentences at each validation, with reference and translation.
    assert said.count("  source     ") == said.count("  hypothesis ") == 3 * len(dev)
    assert "target tokens/s" in said
    assert "finished at step 12\n" in said
    assert said.endswith('  mtkit average\n  echo "..." | mtkit translate\n')
    assert Translator(workspace.model).translate("The man sleeps.")


def test_the_model_is_the_checkpoint_with_the_best_score(tiny_run) -> None:
    run = tiny_run("training.validation.metric=loss")
    run.train()
    scores = {
        path.parent.name: json.loads(path.read_text())["score"]
        for path in run.workspace.checkpoints.glob("*/state.json")
    }
    best = max(scores, key=lambda name: scores[name])
    assert run.workspace.read_manifest()["model"]["steps"] == [int(best.removeprefix("step-"))]
    assert (run.workspace.model / "model.safetensors").read_bytes() == (
        run.workspace.checkpoints / best / "model.safetensors"
    ).read_bytes()


def test_a_model_with_flags_knows_how_long_translations_are(tiny_run) -> None:
    run = tiny_run("inference.flags={}", "training.max_steps=1")
    run.train()
    data = run.workspace.data / "dev"
    # English and German letters have a width of one.
    lengths = [
        sum(map(len, (data / f"{side}.txt").read_text("utf-8").splitlines()))
        for side in ("source", "target")
    ]
    saved = read_settings(run.workspace.model)
    assert saved.flags.length_ratio == pytest.approx(lengths[1] / lengths[0], abs=1e-4)
    assert with_length_ratio(run.recipe.inference, run.workspace.model) == saved
    [found] = load_run(run.recipe.inference, run.workspace).search(["The old man sleeps."])
    assert found.flags is not None


def test_finished_training_does_nothing_but_mend_its_model(tiny_run, capsys) -> None:
    run = tiny_run("training.max_steps=2")
    run.train()
    before = run.weights()
    # As after a kill between the last checkpoint and the model.
    shutil.rmtree(run.workspace.model)
    assert run.train()
    assert run.weights() == before
    assert (run.workspace.model / "model.safetensors").is_file()
    assert "already at step 2 of 2: nothing to do" in capsys.readouterr().err


def test_a_training_out_of_patience_says_how_to_go_on(tiny_run, capsys) -> None:
    patience = "training.early_stopping.patience=1"
    # The second update changes nothing, so its score isn't better.
    keys = ("training.checkpoint_every=1", "training.schedule.peak=1e-30", patience)
    run = tiny_run("training.max_steps=9", *keys)
    run.train()
    run.train()
    found = capsys.readouterr().err
    assert "already at step 2 of 9: nothing to do" in found
    assert "raise or remove training.early_stopping" in found


def test_a_kill_behind_the_last_score_leaves_no_checkpoint_too_many(tiny_run, monkeypatch) -> None:
    settings = ("training.max_steps=3", "training.checkpoint_every=1", "training.keep_last=1")
    settings += ("training.averaging.num_checkpoints=1", "training.validation.metric=loss")
    whole = tiny_run(*settings, name="never killed")
    assert whole.train()
    run = tiny_run(*settings)
    prune = CheckpointFolder.prune

    def die_at_3(folder, training):
        if folder.list()[-1].state.step == 3:
            raise KeyboardInterrupt
        prune(folder, training)

    monkeypatch.setattr(CheckpointFolder, "prune", die_at_3)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    monkeypatch.undo()
    kept = {path.name for path in whole.workspace.checkpoints.iterdir()}
    assert {path.name for path in run.workspace.checkpoints.iterdir()} > kept
    assert run.train()
    assert {path.name for path in run.workspace.checkpoints.iterdir()} == kept


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.d_ff=64", "model.d_ff was 32, now 64"),
        ("training.batch_tokens=700", "training.batch_tokens was 600, now 700"),
        ("model.norm=pre", 'model.norm was "post", now "pre"'),
        ("training.validation.metric=loss", 'metric was "bleu", now "loss"'),
    ],
)
def test_checkpoints_of_another_run_are_refused(tiny_run, override: str, said: str) -> None:
    tiny_run("training.max_steps=1").train()
    with pytest.raises(MtkitError) as caught:
        tiny_run(override).train()
    assert "contains checkpoints of another run" in caught.value.message
    assert said in caught.value.message
    assert "--workspace" in caught.value.hint


def test_another_start_is_another_run(tiny_run, tmp_path) -> None:
    parent = tiny_run("training.max_steps=1", name="parent")
    parent.train()
    copied = tmp_path / "copied"
    shutil.copytree(parent.workspace.model, copied)
    new = "training.start_from.vocabulary=new"
    paths = [f"training.start_from.model={path}" for path in (parent.workspace.model, copied)]
    run = tiny_run(paths[0], new, "training.max_steps=1")
    assert run.train()
    # It starts once: the checkpoint is what training resumes from, and the parent may be gone.
    shutil.rmtree(parent.workspace.model)
    assert tiny_run(paths[0], new, "training.max_steps=2").train()
    for overrides, said in (
        ((paths[1], new), "training.start_from.model was"),
        (("training.max_steps=2",), 'training.start_from was {"model": '),
    ):
        with pytest.raises(MtkitError, match="contains checkpoints of another run") as caught:
            tiny_run(*overrides).train()
        assert said in caught.value.message


def test_what_may_change_under_way(tiny_run) -> None:
    tiny_run("training.max_steps=2").train()
    run = tiny_run(
        "training.max_steps=3", "training.micro_batch_tokens=300", "inference.beam_size=1"
    )
    assert run.train()


def test_a_finished_run_is_not_passed_off_as_one_with_other_settings(tiny_run) -> None:
    tiny_run("training.max_steps=2").train()
    changed = tiny_run("training.max_steps=2", "training.label_smoothing=0.2")
    said = r"finished run with other settings: training\.label_smoothing was 0\.1, now 0\.2"
    with pytest.raises(MtkitError, match=said):
        changed.train()
    with pytest.raises(MtkitError, match=said):
        is_trained(changed.recipe, changed.workspace)
    with pytest.raises(MtkitError, match=r"it is at step 2, past training\.max_steps = 1"):
        tiny_run("training.max_steps=1").train()
    # How often it was saved and logged makes no other run of it.
    assert tiny_run("training.max_steps=2", "training.log_every=1").train()


def test_settings_changed_under_way_are_told(tiny_run, capsys) -> None:
    tiny_run("training.max_steps=2").train()
    assert "warning" not in capsys.readouterr().err
    assert tiny_run("training.max_steps=3", "training.schedule.peak=1e-3").train()
    said = "resuming with changed settings: training.schedule.peak was 0.003, now 0.001; "
    assert said + "they apply from step 3 on" in " ".join(capsys.readouterr().err.split())


def test_a_schedule_to_an_end_makes_the_end_a_setting(tiny_run, capsys) -> None:
    line = "training.schedule={kind='linear', peak=1e-3, warmup_steps=1}"
    tiny_run("training.max_steps=2", line).train()
    assert tiny_run("training.max_steps=3", line).train()
    assert "training.max_steps was 2, now 3" in capsys.readouterr().err


def test_a_stop_that_becomes_the_end_is_validated(tiny_run, monkeypatch) -> None:
    run = tiny_run()

    def stop_at_3(*arguments, **sizes):
        if arguments[1] == 3:
            signal.raise_signal(signal.SIGINT)
        return learning_rate(*arguments, **sizes)

    monkeypatch.setattr(loop, "learning_rate", stop_at_3)
    assert not run.train()
    monkeypatch.undo()
    assert not run.workspace.model.exists()
    ended = tiny_run("training.max_steps=3")
    assert not is_trained(ended.recipe, ended.workspace)
    assert ended.train()
    assert is_trained(ended.recipe, ended.workspace)
    assert run.workspace.read_manifest()["model"]["steps"] == [3]
    whole = tiny_run("training.max_steps=3", name="never stopped")
    assert whole.train()
    assert whole.weights() == ended.weights()


def test_training_in_16_bits_is_close_to_fp32(tiny_run) -> None:
    losses = []
    for precision in ("fp32", "bf16", "fp16"):
        run = tiny_run(f"training.precision={precision}", "model.dropout=0", name=precision)
        run.train()
        lines = read_metrics(run.workspace.metrics_file)
        losses.append([line["loss"] for line in lines if line["kind"] == "train"])
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)
    # fp16 keeps three bits more.
    assert losses[2] == pytest.approx(losses[0], rel=5e-3 / 8)
    assert losses[0] not in losses[1:]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recomputed_layers_give_the_same_bits(tiny_run, precision: str) -> None:
    dropout = "model.attention_dropout=0.2", "model.activation_dropout=0.2"
    settings = (f"training.precision={precision}", "training.max_steps=4", *dropout)
    usual = tiny_run(*settings, name="usual")
    again = tiny_run(*settings, "training.recompute=true", name="again")
    assert usual.train()
    assert again.train()
    assert again.weights() == usual.weights()


def test_epochs_without_a_pair_are_passed_over(tiny_run, capsys) -> None:
    run = tiny_run("data.train.0.weight=0.001", "training.max_steps=3")
    prepare(run.recipe, run.workspace)
    assert "too few to fill an update" in capsys.readouterr().err
    assert run.train()
    # An update ends with its epoch, and most epochs have none.
    state = CheckpointFolder(run.workspace.checkpoints).list()[-1].state
    assert state.step == 3
    assert state.epoch > 3


@pytest.fixture
def finished(tiny_run, kept: Path):
    """A run of two updates, averaged, whose checkpoints are gone."""
    run = tiny_run("training.max_steps=2", "training.checkpoint_every=1")
    run.train_once(kept)
    update_model(run.recipe, run.workspace, device="cpu")
    shutil.rmtree(run.workspace.checkpoints)
    return run


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns the files of a model but its card, which gets scores."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return {str(path): path.read_bytes() for path in files}


def test_run_leaves_a_finished_model_as_it_is_when_its_checkpoints_are_gone(finished) -> None:
    before = files_of(finished.workspace.model)
    assert is_trained_without_checkpoints(finished.recipe, finished.workspace)
    run_all(finished.recipe, finished.workspace, hardware=Hardware(device="cpu"), options=[])
    assert files_of(finished.workspace.model) == before
    assert not finished.workspace.checkpoints.exists()
    assert is_trained_without_checkpoints(finished.recipe, finished.workspace)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.max_steps=3", ""),
        ("model.dropout=0.3", "model.dropout was 0.2, now 0.3"),
        ("training.label_smoothing=0.2", "training.label_smoothing was 0.1, now 0.2"),
    ],
)
def test_another_recipe_is_trained_where_the_checkpoints_are_gone(
    finished, tiny_run, capsys, override: str, said: str
) -> None:
    other = tiny_run("training.max_steps=2", "training.checkpoint_every=1", override)
    assert not is_trained_without_checkpoints(other.recipe, other.workspace)
    assert said in capsys.readouterr().err


def test_a_model_that_was_changed_or_has_checkpoints_is_no_reason_to_stop(finished) -> None:
    weights = finished.workspace.model / "model.safetensors"
    kept_bytes = weights.read_bytes()
    weights.write_bytes(kept_bytes[:-1] + b"x")
    assert not is_trained_without_checkpoints(finished.recipe, finished.workspace)
    weights.write_bytes(kept_bytes)
    (finished.workspace.checkpoints / "damaged-step-00000002").mkdir(parents=True)
    assert not is_trained_without_checkpoints(finished.recipe, finished.workspace)


def test_a_model_whose_training_is_unknown_is_not_replaced(finished) -> None:
    manifest = finished.workspace.read_manifest()
    del manifest["model"]["training"]
    finished.workspace.manifest_file.write_text(json.dumps(manifest))
    with pytest.raises(MtkitError, match="made by an unreleased mtkit"):
        is_trained_without_checkpoints(finished.recipe, finished.workspace)
