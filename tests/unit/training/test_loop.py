"""The loop with a second objective, and what happens at its milestones."""

import math
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.training import loop
from mtkit.training.checkpoint import TrainingState, is_finished
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner, build_optimizer
from mtkit.training.loop import Trainer
from mtkit.training.metrics import read_metrics
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.progress import ProgressView

from .unigram import UnigramObjective

TOKENS = [0] * 16 + [1] * 8 + [2] * 8
"""Frequencies 1/2, 1/4, 1/4: an entropy of 1.5 bits."""


def load(*overrides: str) -> Recipe:
    constant = "training.schedule={kind='constant', peak=0.05}"
    return load_recipe("phrasebook-en-de", [constant, "training.log_every=1", *overrides])


def build_trainer(folder: Path, recipe: Recipe, objective: UnigramObjective) -> Trainer:
    return Trainer(
        recipe=recipe,
        objective=objective,
        learner=Learner.of(objective.model, recipe.training),
        processes=ProcessGroup(0, 1, torch.device("cpu")),
        checkpoints=CheckpointFolder(folder / "checkpoints"),
        metrics=MetricsLog(
            folder / "metrics.jsonl",
            picture=folder / "curve.png",
            title="toy",
            resumed_at=0,
            seconds_before_picture=0.0,
        ),
        view=ProgressView(recipe.training.max_steps, is_shown=False),
        data_digest="",
    )


def test_another_objective_learns_its_entropy(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=32)
    recipe = load("training.max_steps=200", "training.checkpoint_every=200")
    state = build_trainer(tmp_path, recipe, objective).run(TrainingState())
    train = [m for m in read_metrics(tmp_path / "metrics.jsonl") if m["kind"] == "train"]
    # It starts from uniform, ln 3, and ends at the entropy, 1.5 ln 2.
    assert train[0]["loss"] == pytest.approx(math.log(3.0), rel=1e-6)
    assert train[-1]["loss"] == pytest.approx(1.5 * math.log(2.0), abs=1e-4)
    learned = torch.softmax(objective.model.weight.detach().flatten(), dim=0)
    assert learned.tolist() == pytest.approx([0.5, 0.25, 0.25], abs=0.01)
    assert (state.step, state.target_tokens) == (200, 200 * 32)


def test_the_gradient_is_of_the_mean_per_token(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=32)
    recipe = load("training.max_steps=1", "training.checkpoint_every=1")
    trainer = build_trainer(tmp_path, recipe, objective)
    trainer.run(TrainingState())
    # softmax - frequency, by hand: 1/3 - 1/2, and twice 1/3 - 1/4.
    gradient = objective.model.weight.grad.flatten().tolist()
    assert gradient == pytest.approx([-1 / 6, 1 / 12, 1 / 12], rel=1e-6)


def test_epochs_follow_one_another_and_positions_are_kept(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
    recipe = load("training.max_steps=10", "training.checkpoint_every=10")
    state = build_trainer(tmp_path, recipe, objective).run(TrainingState())
    # Four updates an epoch: ten are two epochs and two of the third.
    assert (state.epoch, state.position) == (2, 2)
    assert objective.batches.planned_epochs == [0, 1, 2]


def test_checkpoints_come_at_their_interval_and_at_the_end(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
    recipe = load("training.max_steps=7", "training.checkpoint_every=3")
    build_trainer(tmp_path, recipe, objective).run(TrainingState())
    saved = CheckpointFolder(tmp_path / "checkpoints").list()
    assert [checkpoint.state.step for checkpoint in saved] == [3, 6, 7]


def test_patience_ends_training(tmp_path: Path) -> None:
    scores = (1.0, 4.0, 2.0, 3.0, 4.0, 9.0)
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8, scores=scores)
    recipe = load(
        "training.max_steps=100",
        "training.checkpoint_every=1",
        "training.early_stopping.patience=3",
    )
    state = build_trainer(tmp_path, recipe, objective).run(TrainingState())
    # The best came second; an equal score is no better.
    assert (state.step, state.best_score, state.num_without_best) == (5, 4.0, 3)
    assert is_finished(recipe.training, state)
    assert not is_finished(load("training.max_steps=100").training, state)


def test_losses_that_are_no_numbers_from_the_start_end_training(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
    torch.nn.init.constant_(objective.model.weight, math.nan)
    recipe = load("training.max_steps=50", "training.checkpoint_every=50")
    with pytest.raises(MtkitError, match="step 5: 5 updates skipped in a row before the first"):
        build_trainer(tmp_path, recipe, objective).run(TrainingState())
    assert CheckpointFolder(tmp_path / "checkpoints").list() == []


def test_weights_that_are_no_numbers_are_never_saved(tmp_path: Path, monkeypatch) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
    # The loss of step 1 is finite; its update isn't, and no loss is logged before the stop.
    recipe = load("training.max_steps=9", "training.checkpoint_every=9", "training.log_every=9")

    def rate(*_: object, **__: object) -> float:
        signal.raise_signal(signal.SIGINT)
        return math.nan

    monkeypatch.setattr(loop, "learning_rate", rate)
    with pytest.raises(
        MtkitError, match="step 1: the weights contain NaN or infinity: training has div"
    ):
        build_trainer(tmp_path, recipe, objective).run(TrainingState())
    assert CheckpointFolder(tmp_path / "checkpoints").list() == []


def test_every_update_counts_in_the_logged_loss(tmp_path: Path) -> None:
    losses = {}
    for log_every in (1, 4):
        folder = tmp_path / str(log_every)
        objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
        # A checkpoint between two log lines takes nothing out of the mean.
        recipe = load(
            "training.max_steps=4", "training.checkpoint_every=3", f"training.log_every={log_every}"
        )
        build_trainer(folder, recipe, objective).run(TrainingState())
        train = [m for m in read_metrics(folder / "metrics.jsonl") if m["kind"] == "train"]
        losses[log_every] = [line["loss"] for line in train]
    assert losses[4] == [pytest.approx(sum(losses[1]) / 4, rel=1e-6)]


def test_the_curve_is_drawn_while_training_goes_on(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
    recipe = load("training.max_steps=2", "training.checkpoint_every=1")
    build_trainer(tmp_path, recipe, objective).run(TrainingState())
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_clipping_bounds_the_gradient(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=32)
    recipe = load(
        "training.max_steps=1", "training.checkpoint_every=1", "training.clipping.max_norm=0.1"
    )
    build_trainer(tmp_path, recipe, objective).run(TrainingState())
    # Unclipped, its norm is sqrt(1/36 + 2/144) = 0.204.
    assert objective.model.weight.grad.norm().item() == pytest.approx(0.1, rel=1e-4)


def test_the_rate_is_the_schedules(tmp_path: Path) -> None:
    objective = UnigramObjective.of(TOKENS, 3, batch_size=8)
    rise = "training.schedule={kind='inverse-sqrt', peak=0.4, warmup_steps=2}"
    recipe = load(rise, "training.max_steps=8", "training.checkpoint_every=8")
    build_trainer(tmp_path, recipe, objective).run(TrainingState())
    train = [m for m in read_metrics(tmp_path / "metrics.jsonl") if m["kind"] == "train"]
    rates = [line["learning_rate"] for line in train]
    assert rates[:2] == pytest.approx([0.2, 0.4])
    assert rates[7] == pytest.approx(0.2)


def test_weight_decay_spares_biases_and_norms() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    adam = load("training.optimizer.weight_decay=0.5").training.optimizer
    optimizer = build_optimizer(model, adam)
    decayed = {
        id(weight)
        for group in optimizer.param_groups
        if group["weight_decay"]
        for weight in group["params"]
    }
    assert decayed == {id(model[0].weight)}
    assert len(np.unique([id(w) for g in optimizer.param_groups for w in g["params"]])) == 4
