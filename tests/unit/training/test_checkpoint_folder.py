"""Checkpoints: complete or absent, pruned by age and score, damaged ones named."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from mtkit.errors import MtkitError
from mtkit.locks import locked
from mtkit.recipe import load_recipe
from mtkit.recipe.training import Adam, Averaging, Training
from mtkit.training.checkpoint import Checkpoint, TrainingState, choose_best, describe_recipe
from mtkit.training.checkpoint_folder import CheckpointFolder, restore_learner
from mtkit.training.learner import AveragedWeights, Learner, build_optimizer
from mtkit.training.precision import WorkingCopy


def build(seed: int = 1, *, decay: float | None = None) -> Learner:
    """Returns a small learner after `seed` updates."""
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    average = None if decay is None else AveragedWeights(model, decay)
    learner = Learner(model, build_optimizer(model, Adam()), WorkingCopy(model, "fp32"), average)
    for _ in range(seed):
        learn(learner)
    return learner


RECIPE = describe_recipe(load_recipe("multi30k-en-de", []))


def learn(learner: Learner) -> None:
    learner.forget_gradients()
    learner.model(torch.ones(4, 3)).square().sum().backward()
    learner.update(0.1)


def bits(learner: Learner) -> list[bytes]:
    return [tensor.contiguous().numpy().tobytes() for tensor in learner.tensors()]


def save(
    folder: CheckpointFolder,
    step: int,
    score: float | None,
    *,
    is_regular: bool = True,
    learner: Learner | None = None,
    **changes: float,
) -> Checkpoint:
    state = TrainingState(step, 1, 2, 300, 4.5, 0.25, 6, 256, 4, 1, 2, 0.5, 3.5)
    state = dataclasses.replace(state, **changes)
    saved = folder.save(
        learner or build(3), state, is_regular=is_regular, recipe=RECIPE, data_digest="d"
    )
    return saved if score is None else folder.record_score(saved, state, score)


def keeping(**keys: float) -> Training:
    averaging = Averaging(num_checkpoints=1)
    return Training(**{"keep_last": 1, "keep_best": 1, "averaging": averaging, **keys})


def steps(folder: CheckpointFolder) -> list[int]:
    return [checkpoint.state.step for checkpoint in folder.list()]


@pytest.mark.parametrize("decay", [None, 0.9])
def test_restored_and_trained_on_is_never_interrupted(tmp_path: Path, decay: float | None) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 3, 1.0, learner=build(3, decay=decay))
    restored = build(1, decay=decay)
    assert folder.restore_newest(restored) == folder.list()[0]
    whole = build(3, decay=decay)
    for learner in (restored, whole):
        learn(learner)
        learn(learner)
    assert restored.num_updates == 5
    assert bits(restored) == bits(whole)


def test_updates_are_those_of_torchs_own_adam(tmp_path: Path) -> None:
    """Moments that are made before the first update, restored ones too, change nothing."""
    folder = CheckpointFolder(tmp_path)
    save(folder, 3, 1.0)
    ours = build(1)
    folder.restore_newest(ours)
    learn(ours)
    torch.manual_seed(3)
    theirs = nn.Linear(3, 2)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.1, betas=(0.9, 0.98), eps=1e-9)
    for _ in range(4):
        adam.zero_grad()
        theirs(torch.ones(4, 3)).square().sum().backward()
        adam.step()
    for weight, expected in zip(ours.model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-7)


def test_the_moving_average_is_what_is_released(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    average = AveragedWeights(model, 0.5)
    for number, weight in ((1, 3.0), (2, 7.0), (100, 0.0)):
        nn.init.constant_(model.weight, weight)
        average.update(number)
    # By hand: d = 2/11, 3/12 and 1/2.
    first = 2 / 11 * 1.0 + 9 / 11 * 3.0
    second = 0.25 * first + 0.75 * 7.0
    learner = Learner(model, build_optimizer(model, Adam()), WorkingCopy(model, "fp32"), average)
    saved = save(CheckpointFolder(tmp_path), 1, None, learner=learner)
    assert load_file(saved.weights_file)["weight"].item() == pytest.approx(second / 2, rel=1e-6)
    assert load_file(saved.folder / "weights.safetensors")["weight"].item() == 0.0
    # Only while it is saved or validated does the model have the average.
    assert model.weight.item() == 0.0


def test_an_average_that_begins_under_way_begins_at_the_weights(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 3, 1.0)
    learner = build(1, decay=0.9)
    folder.restore_newest(learner)
    assert learner.average is not None
    weights = [weight.detach() for weight in learner.model.parameters()]
    assert all(map(torch.equal, learner.average.tensors, weights))


def test_state_score_and_recipe_come_back(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 7, 1.5)
    assert folder.list() == [saved]
    assert saved.state == TrainingState(7, 1, 2, 300, 4.5, 0.25, 6, 256, 4, 1, 2, 0.5, 3.5)
    assert (saved.score, saved.is_regular, saved.data_digest) == (1.5, True, "d")


def test_no_pickle_and_a_digest_of_every_file_of_numbers(tmp_path: Path) -> None:
    saved = save(CheckpointFolder(tmp_path), 7, 1.0)
    names = sorted(path.name for path in saved.folder.iterdir())
    assert names == ["model.safetensors", "optimizer.safetensors", "state.json"]
    for name in names[:2]:
        expected = hashlib.sha256((saved.folder / name).read_bytes()).hexdigest()
        assert expected.startswith(saved.digests[name])
        assert len(saved.digests[name]) == 16


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step, score in ((1, 5.0), (2, 9.0), (3, 9.0), (4, 1.0), (5, 7.0), (6, 2.0)):
        save(folder, step, score)
    folder.prune(keeping(keep_last=2, keep_best=2))
    # Steps 5 and 6 are the last, 2 and 3 the best: none counts twice.
    assert steps(folder) == [2, 3, 5, 6]
    assert [c.state.step for c in choose_best(folder.list(), 2)] == [3, 2]


def test_the_best_of_all_outlives_any_number_of_later_ones(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in range(1, 12):
        save(folder, step, 9.0 if step == 2 else float(step % 3))
        folder.prune(keeping(keep_last=2))
        if step >= 2:
            assert 2 in steps(folder)
    assert steps(folder) == [2, 10, 11]


def test_the_first_of_each_so_many_steps_is_kept_for_ever(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in range(4, 41, 4):
        save(folder, step, -float(step))
        folder.prune(keeping(keep_every=10))
    # 12, 20, 32 and 40 are the first from 10, 20, 30 and 40 on; 4 is the best.
    assert steps(folder) == [4, 12, 20, 32, 40]


def test_the_first_of_each_so_many_minutes_is_kept_for_ever(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step, minutes in enumerate((1, 9, 11, 19, 21, 29, 31), start=1):
        save(folder, step, -float(step), elapsed_seconds=60.0 * minutes)
        folder.prune(keeping(keep_minutes=10.0))
    assert steps(folder) == [1, 3, 5, 7]


def test_a_stop_does_not_push_the_best_out(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 1, 5.0)
    save(folder, 2, None, is_regular=False)
    save(folder, 3, None, is_regular=False)
    folder.prune(keeping())
    # The last is what training resumes from, whatever its score.
    assert steps(folder) == [1, 3]


def test_one_that_waits_for_its_validation_counts_among_the_last(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 3):
        save(folder, step, float(step))
    save(folder, 4, None)
    folder.prune(keeping(keep_last=2))
    assert steps(folder) == [3, 4]


@pytest.mark.parametrize("content", ["{", "[]", '{"state": {"step": 1}}', ""])
def test_a_damaged_state_is_left_out_with_a_warning(tmp_path: Path, content: str, capsys) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 6, 1.0)
    damaged = save(folder, 7, 1.0)
    text = '{"format_version": 3, ' + content[1:] if content.startswith('{"') else content
    (damaged.folder / "state.json").write_text(text)
    assert steps(folder) == steps(folder) == [6]
    # Each command lists the checkpoints several times.
    assert capsys.readouterr().err.count(f"warning: {damaged.folder}: damaged checkpoint") == 1
    with pytest.raises(MtkitError, match="damaged checkpoint") as found:
        folder.list(skips_damaged=False)
    assert found.value.hint == f"remove {damaged.folder} to continue without it"


def test_a_checkpoint_of_an_unreleased_version_is_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    path = save(folder, 7, 1.0).folder / "state.json"
    path.write_text(path.read_text().replace('"format_version": 3', '"format_version": 2'))
    with pytest.raises(MtkitError, match="made by an unreleased mtkit") as raised:
        folder.list()
    assert "train again: mtkit train" in raised.value.hint


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 0b0100
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("damage", [Path.unlink, cut, flip_a_bit])
def test_damaged_numbers_are_put_aside_for_the_checkpoint_before(
    tmp_path: Path, name: str, damage, capsys
) -> None:
    folder = CheckpointFolder(tmp_path)
    intact = save(folder, 6, 1.0, learner=build(2))
    damaged = save(folder, 7, 2.0)
    damage(damaged.folder / name)
    learner = build(1)
    assert folder.restore_newest(learner) == intact
    assert bits(learner) == bits(build(2))
    said = capsys.readouterr().err
    assert f"warning: {damaged.folder}: damaged checkpoint: {name}" in said
    assert "renamed to damaged-step-00000007, trying step-00000006" in said
    assert (tmp_path / "damaged-step-00000007" / "state.json").is_file()
    assert steps(folder) == [6]


def test_with_nothing_but_damage_no_run_is_started_over(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    cut(save(folder, 7, 2.0).folder / "model.safetensors")
    with pytest.raises(MtkitError, match="no usable checkpoint") as caught:
        folder.restore_newest(build(1))
    assert "damaged-step-" in caught.value.message
    # Nor by the same command again.
    with pytest.raises(MtkitError, match="no usable checkpoint"):
        folder.restore_newest(build(1))
    assert CheckpointFolder(tmp_path / "none").restore_newest(build(1)) is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lost", "exp_avg.bias is missing"),
        ("added", "exp_avg.other is unexpected"),
        ("cut", r"exp_avg_sq.weight has shape \[1\], expected \[2, 3\]"),
    ],
)
def test_moments_of_another_model_are_refused(tmp_path: Path, fault: str, said: str) -> None:
    saved = save(CheckpointFolder(tmp_path), 7, 1.0)
    path = saved.folder / "optimizer.safetensors"
    moments = load_file(path)
    if fault == "lost":
        del moments["exp_avg.bias"]
    elif fault == "added":
        moments["exp_avg.other"] = torch.zeros(1)
    else:
        moments["exp_avg_sq.weight"] = torch.zeros(1)
    save_file(moments, path)
    with pytest.raises(MtkitError, match=said) as caught:
        restore_learner(saved, build())
    assert str(saved.folder) in caught.value.hint


def test_a_save_that_fails_leaves_no_checkpoint(tmp_path: Path, monkeypatch) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 1, 1.0)

    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dumps", full)
    with pytest.raises(OSError, match="No space left"):
        save(folder, 2, 1.0)
    monkeypatch.undo()
    assert steps(folder) == [1]
    assert save(folder, 2, 1.0) in folder.list()


def test_a_stop_does_not_push_out_what_the_mean_is_taken_of(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step, score in ((100, 9.0), (600, 1.0), (700, 2.0), (750, None), (800, 3.0), (850, None)):
        save(folder, step, score, is_regular=score is not None)
        folder.prune(keeping(keep_last=3))
    # As without the stops at 750 and 850; the last is what training resumes from.
    assert steps(folder) == [100, 600, 700, 800, 850]


def test_a_kill_while_pruning_leaves_no_half_checkpoint(tmp_path: Path, monkeypatch) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2):
        save(folder, step, float(step))

    def killed(folder: Path) -> None:
        if folder.exists():
            raise KeyboardInterrupt

    monkeypatch.setattr("mtkit.folders.remove_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        folder.prune(keeping())
    monkeypatch.undo()
    assert steps(folder) == [2]
    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_kill_while_saving_a_step_again_loses_no_checkpoint(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 2, None)
    # As a kill leaves it that comes between the two renames.
    saved.folder.rename(tmp_path / ".step-00000002.retired")
    (tmp_path / ".step-00000002.draft").mkdir()
    (tmp_path / ".step-00000002.7-0123abcd.draft").mkdir()
    (tmp_path / ".step-00000002.7-0123abcd.draft.lock").touch()
    assert folder.list() == [saved]
    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_kill_behind_the_renaming_leaves_no_lock(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 2, None)
    # The name stands already, and the lock on it was never given back.
    (tmp_path / ".step-00000002.lock").touch()
    with locked(tmp_path / "step-00000004"):
        folder.sweep()
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == [".step-00000004.lock", "step-00000002"]
    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def change_state(folder: Path, **changes: object) -> None:
    path = folder / "state.json"
    facts = json.loads(path.read_text())
    facts["state"] |= {key: value for key, value in changes.items() if key in facts["state"]}
    facts |= {key: value for key, value in changes.items() if key not in facts["state"]}
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "many"},
        {"step": 10**300},
        {"epoch": -1},
        {"elapsed_seconds": 1e300},
        {"score": "high"},
        {"recipe": []},
        {"data_digest": None},
        {"digests": {"../../../etc/passwd": "0"}},
        {"digests": {"model.safetensors": 1}},
        {"digests": []},
    ],
)
def test_a_state_that_no_training_has_is_damage(tmp_path: Path, capsys, changes) -> None:
    folder = CheckpointFolder(tmp_path)
    change_state(save(folder, 1, 0.5).folder, **changes)
    save(folder, 2, 0.5)
    assert steps(folder) == [2]
    assert "damaged checkpoint: state.json: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("fault", ["pipe", "link", "hole"])
def test_a_file_that_is_none_of_the_folder_is_not_read(tmp_path: Path, name, fault) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints")
    path = save(folder, 1, 0.5).folder / name
    match fault:
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case "hole":
            os.truncate(path, 1 << 40)
    with pytest.raises(MtkitError):
        folder.restore_newest(build(3))
