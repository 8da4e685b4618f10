"""Checkpoints: complete or absent, pruned by age and score, damaged ones named."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from mtkit.errors import MtkitError
from mtkit.training.checkpoint import CheckpointFolder, TrainingState, choose_best


def build(seed: int = 1) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(seed):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def save(folder: CheckpointFolder, step: int, score: float | None, seed: int = 3):
    model, optimizer = build(seed)
    state = TrainingState(step, 1, 2, 300, 4.5, 0.25, 6)
    state = dataclasses.replace(state, step=step)
    return folder.save(model, optimizer, state, score=score, recipe={"name": "x"}, data_digest="d")


def test_restored_and_trained_on_is_never_interrupted(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 3, 1.0, seed=3)
    model, optimizer = build(1)
    [saved] = folder.list()
    folder.restore(saved, model, optimizer)
    # Three updates, restored, and two more are five updates from the same start.
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    torch.manual_seed(3)
    expected = nn.Linear(3, 2)
    whole = torch.optim.AdamW(expected.parameters(), lr=0.1)
    for _ in range(5):
        whole.zero_grad()
        expected(torch.ones(4, 3)).square().sum().backward()
        whole.step()
    assert all(
        torch.equal(ours, theirs)
        for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True)
    )


def test_state_score_and_recipe_come_back(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 7, None)
    assert folder.list() == [saved]
    assert saved.state == TrainingState(7, 1, 2, 300, 4.5, 0.25, 6)
    assert saved.score is None


def test_no_pickle(tmp_path: Path) -> None:
    saved = save(CheckpointFolder(tmp_path), 7, 1.0)
    assert sorted(path.name for path in saved.folder.iterdir()) == [
        "model.safetensors", "optimizer.safetensors", "state.json"
    ]  # fmt: skip


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step, score in ((1, 5.0), (2, 9.0), (3, 9.0), (4, 1.0), (5, 7.0), (6, 2.0)):
        save(folder, step, score)
    folder.prune(keep_last=2, keep_best=2)
    # Steps 5 and 6 are the last, 2 and 3 the best: none counts twice.
    assert [checkpoint.state.step for checkpoint in folder.list()] == [2, 3, 5, 6]
    assert [c.state.step for c in choose_best(folder.list(), 2)] == [2, 3]


def test_a_stop_does_not_push_the_best_out(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(folder, 1, 5.0)
    save(folder, 2, None)
    save(folder, 3, None)
    folder.prune(keep_last=1, keep_best=1)
    # The last is what training goes on from, whatever its score.
    assert [checkpoint.state.step for checkpoint in folder.list()] == [1, 3]


@pytest.mark.parametrize("content", ["{", "[]", '{"state": {"step": 1}}', ""])
def test_a_damaged_state_is_named_with_the_way_out(tmp_path: Path, content: str) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 7, 1.0)
    (saved.folder / "state.json").write_text(content)
    with pytest.raises(MtkitError, match="step-00000007: damaged checkpoint") as caught:
        folder.list()
    assert caught.value.hint == f"remove {saved.folder} to go on from the checkpoint before it"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("fault", ["missing", "cut"])
def test_damaged_numbers_are_named_with_the_way_out(tmp_path: Path, name: str, fault: str) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 7, 1.0)
    path = saved.folder / name
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(MtkitError, match=name) as caught:
        folder.restore(saved, *build())
    assert str(saved.folder) in caught.value.hint


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lost", "exp_avg.bias is missing"),
        ("added", "exp_avg.other is unexpected"),
        ("cut", r"exp_avg_sq.weight is of shape \[1\], expected \[2, 3\]"),
    ],
)
def test_moments_of_another_model_are_refused(tmp_path: Path, fault: str, said: str) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 7, 1.0)
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
        folder.restore(saved, *build())
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
    assert [checkpoint.state.step for checkpoint in folder.list()] == [1]
    assert save(folder, 2, 1.0) in folder.list()


def test_patience_counts_checkpoints_since_the_best() -> None:
    state = TrainingState()
    for score, best, waited in ((3.0, 3.0, 0), (3.0, 3.0, 1), (2.0, 3.0, 2), (4.0, 4.0, 0)):
        state = state.after_validation(score)
        assert (state.best_score, state.num_without_best) == (best, waited)


def test_a_stop_does_not_push_out_what_the_mean_is_taken_of(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for step, score in ((100, 9.0), (600, 1.0), (700, 2.0), (750, None), (800, 3.0), (850, None)):
        save(folder, step, score)
        folder.prune(keep_last=3, keep_best=1)
    # As without the stops at 750 and 850; the last is what training goes on from.
    assert [c.state.step for c in folder.list()] == [100, 600, 700, 800, 850]


def test_a_kill_while_pruning_leaves_no_half_checkpoint(tmp_path: Path, monkeypatch) -> None:
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2):
        save(folder, step, float(step))

    def killed(folder: Path) -> None:
        if folder.exists():
            raise KeyboardInterrupt

    monkeypatch.setattr("mtkit.workspace.remove_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        folder.prune(keep_last=1, keep_best=1)
    monkeypatch.undo()
    assert [checkpoint.state.step for checkpoint in folder.list()] == [2]
    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_kill_while_saving_a_step_again_loses_no_checkpoint(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    saved = save(folder, 2, None)
    # As a kill leaves it that comes between the two renames.
    saved.folder.rename(tmp_path / ".step-00000002.retired")
    (tmp_path / ".step-00000002.draft").mkdir()
    assert folder.list() == [saved]
    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]
