"""Where training stands."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline.import_model import import_model
from mtkit.recipe import load_recipe
from mtkit.training.checkpoint import (
    Checkpoint,
    TrainingState,
    check_same_run,
    choose_comparable_best,
    describe_recipe,
    list_changed_settings,
    list_score_settings,
)
from mtkit.training.train import _check_same_everywhere

from ...learned_metrics import write_metric


def test_patience_counts_checkpoints_since_the_best() -> None:
    state = TrainingState()
    for score, best, waited in ((3.0, 3.0, 0), (3.0, 3.0, 1), (2.0, 3.0, 2), (4.0, 4.0, 0)):
        state = state.after_validation(score)
        assert (state.best_score, state.num_without_best) == (best, waited)


def test_machines_may_have_a_metric_in_different_places(tmp_path: Path) -> None:
    found = []
    for name, keys in (("here", {}), ("there", {}), ("other", {"activations": "Sigmoid"})):
        published = write_metric(tmp_path / f"of-{name}" / "da", **keys)
        import_model(str(published), tmp_path / name, encoder=str(published / "encoder"))
        change = f"training.validation.metric={tmp_path / name}"
        recipe = load_recipe("multi30k-en-de", [change])
        run = SimpleNamespace(
            recipe=recipe, tables=describe_recipe(recipe), data=SimpleNamespace(digest="data")
        )
        told: list[str] = []
        machines = SimpleNamespace(gather=lambda values, told=told: told.extend(values) or values)
        _check_same_everywhere(run, machines)  # type: ignore[arg-type]
        found.append(told)
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_learned_metric_is_what_is_in_its_folder(tmp_path: Path) -> None:
    def describe(folder: Path) -> dict:
        return describe_recipe(
            load_recipe("multi30k-en-de", [f"training.validation.metric={folder}"])
        )

    metrics = [tmp_path / "metric", tmp_path / "other"]
    for folder, keys in zip(metrics, ({}, {"activations": "Sigmoid"}), strict=True):
        published = write_metric(tmp_path / f"of-{folder.name}" / "da", **keys)
        import_model(str(published), folder, encoder=str(published / "encoder"))
    earlier = describe(metrics[0])
    saved = [Checkpoint(tmp_path / "step", TrainingState(), 1.0, True, {}, "data", earlier)]
    moved = describe(metrics[0].rename(tmp_path / "moved"))
    check_same_run(moved, "data", saved)
    assert list_score_settings(moved) == list_score_settings(earlier)
    other = describe(metrics[1])
    with pytest.raises(MtkitError, match=r'training\.validation\.metric was "da, digest .*, now'):
        check_same_run(other, "data", saved)
    assert list_score_settings(other) != list_score_settings(earlier)


def test_scores_by_other_settings_are_not_compared(tmp_path: Path) -> None:
    def save(step: int, score: float | None, *overrides: str) -> Checkpoint:
        tables = describe_recipe(load_recipe("multi30k-en-de", list(overrides)))
        state = TrainingState(step=step)
        return Checkpoint(tmp_path / str(step), state, score, True, {}, "data", tables)

    lowercase = "evaluation.lowercase=true"
    saved = [save(1, 0.4), save(2, 0.3), save(3, 0.2, lowercase), save(4, 0.1, lowercase)]
    assert choose_comparable_best(saved) == [saved[2]]
    # One that wasn't scored yet, and a setting that changes no score.
    saved = [*saved[:2], save(3, 0.35, "training.max_steps=9"), save(4, None, lowercase)]
    assert choose_comparable_best(saved) == [saved[0]]
    assert choose_comparable_best(saved[-1:]) == []


def test_short_blocks_make_the_end_a_setting() -> None:
    # They are a share of max_steps.
    recipes = [load_recipe("bert-base", [f"training.max_steps={steps}"]) for steps in (10, 20)]
    tables = [describe_recipe(each) for each in recipes]
    for each in tables:
        each["training"]["schedule"] = {**each["training"]["schedule"], "kind": "constant"}
    saved = [SimpleNamespace(recipe=tables[0])]
    assert list_changed_settings(tables[1], saved) == ["training.max_steps was 10, now 20"]
    for each in tables:
        each["training"]["masking"]["short_tokens"] = None
    assert not list_changed_settings(tables[1], saved)
