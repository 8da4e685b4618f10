"""A mean beside the best single checkpoint: what is measured, said, recorded and released."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.model.folder import load_model_folder
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.training import Averaging
from mtkit.training.averaging import evaluate_weights
from mtkit.training.averaging.average import average, is_averaged, update_model, warn_if_worse
from mtkit.training.averaging.model_record import ModelRecord
from mtkit.training.checkpoint import list_score_settings
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.distributed import ProcessGroup
from mtkit.training.training_run import TrainingRun
from mtkit.training.validation import ValidationResult
from mtkit.training.validators import TranslationValidator
from mtkit.workspace import Workspace

OPTIONS = ["--workspace", "a run"]


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A run with checkpoints at steps 3, 6, 9 and 12, whose scores are then set by hand."""
    run = tiny_run(
        "training.checkpoint_every=3",
        "training.averaging.num_checkpoints=3",
        "training.averaging.if_worse=warn",
        "training.keep_last=4",
    )
    run.train_once(kept)
    for step, score in ((3, 12.0), (6, 39.34), (9, 38.5), (12, 30.0)):
        change_state(run.workspace, step, score=score)
    return run


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], list[float]]:
    """A function that sets the development scores of what is measured, one after the other.

    It returns those that are left.
    """

    def set_scores(scores: list[float]) -> list[float]:
        class Judge:
            def __init__(self, *_: object, **__: object) -> None: ...

            def validate(self, _: object) -> ValidationResult:
                score = scores.pop(0)
                return ValidationResult(score, {"loss": 2.5, "bleu": score, "chrf": 50.0}, [])

        monkeypatch.setattr(evaluate_weights, "build_validator", Judge)
        return scores

    return set_scores


def change_state(workspace: Workspace, step: int, **changes: object) -> None:
    path = workspace.checkpoints / f"step-{step:08d}" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_recipe(workspace: Workspace, step: int, section: str, **changes: object) -> None:
    """Makes it so that a checkpoint was trained with other settings."""
    path = workspace.checkpoints / f"step-{step:08d}" / "state.json"
    facts = json.loads(path.read_text())
    facts["recipe"][section].update(changes)
    path.write_text(json.dumps(facts))


def with_if_worse(recipe: Recipe, value: str) -> Recipe:
    averaging = recipe.training.averaging.model_copy(update={"if_worse": value})
    training = recipe.training.model_copy(update={"averaging": averaging})
    return recipe.model_copy(update={"training": training})


def make_mean(run: Any, if_worse: str = "warn") -> None:
    update_model(with_if_worse(run.recipe, if_worse), run.workspace, device="cpu", options=OPTIONS)


def read_record(run: Any) -> dict[str, Any]:
    return run.workspace.read_manifest()["model"]


def read_weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_mean_that_does_worse_is_warned_of_with_the_command_to_type(
    trained, judge, capsys: pytest.CaptureFixture[str]
) -> None:
    left = judge([35.43])
    make_mean(trained)
    assert left == []
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "evaluating the average on the development set: 20 sentences, beam 1 (--set "
        "training.averaging.if_worse=ignore skips this)",
        "averaged 3 checkpoints (steps 6, 9, 12)",
        "warning: the average scores worse than the best single checkpoint: development BLEU "
        "35.43, against 39.34 for the checkpoint of step 6; to compare averages of other sizes "
        "and keep the best: mtkit average --workspace 'a run' --select",
    ]
    record = read_record(trained)
    assert record["steps"] == [6, 9, 12]
    comparison = record["comparison"]
    assert comparison["mean"] == {
        "name": "last 3",
        "steps": [6, 9, 12],
        "metrics": {"bleu": 35.43, "chrf": 50.0, "loss": 2.5},
    }
    assert comparison["single"] == {"name": "best", "steps": [6], "metrics": {"bleu": 39.34}}
    assert comparison["is_mean_worse"]
    card = (trained.workspace.model / "README.md").read_text()
    assert (
        "- compared on the development set: a single checkpoint scores better than the average, "
        "which was kept anyway\n"
        "  - last 3: BLEU 35.43, chrF 50.00, loss 2.500 (steps 6, 9, 12)\n"
        "  - best: BLEU 39.34 (step 6)\n"
    ) in card


def test_a_mean_that_does_better_is_no_reason_to_warn(trained, judge, capsys) -> None:
    judge([40.38])
    make_mean(trained)
    said = capsys.readouterr().err
    assert "warning" not in said
    assert (
        "the average scores no worse than the best single checkpoint: development BLEU 40.38, "
        "against 39.34 for the checkpoint of step 6\n"
    ) in said
    card = (trained.workspace.model / "README.md").read_text()
    assert "- compared on the development set: no single checkpoint scores better than the" in card


@pytest.mark.parametrize(
    ("mean", "is_worse", "texts"),
    [
        (39.34, False, ("39.34", "39.34")),
        (39.3399, True, ("39.33990", "39.34000")),
        (39.335, True, ("39.34", "39.34")),
        (math.nan, True, ("not finite", "39.34")),
    ],
)
def test_what_counts_as_worse(
    trained, judge, capsys, mean: float, *, is_worse: bool, texts: tuple[str, str]
) -> None:
    judge([mean])
    make_mean(trained)
    said = capsys.readouterr().err
    assert ("warning: the average scores worse" in said) == is_worse
    if mean != 39.335:
        assert f"development BLEU {texts[0]}, against {texts[1]} for the checkpoint of" in said
    # JSON has no NaN.
    json.loads(trained.workspace.manifest_file.read_text(), parse_constant=pytest.fail)


def test_a_recipe_may_have_a_worse_mean_replaced(trained, judge, capsys) -> None:
    judge([35.43])
    make_mean(trained, "replace")
    best = trained.workspace.checkpoints / "step-00000006"
    assert read_weights(trained.workspace.model) == read_weights(best)
    assert read_record(trained)["steps"] == [6]
    said = capsys.readouterr().err
    assert "of step 6; model/ is that checkpoint (training.averaging.if_worse)" in said
    assert "--select" not in said
    card = (trained.workspace.model / "README.md").read_text()
    assert "- weights: the checkpoint of step 6\n" in card
    assert "a single checkpoint scores better than the average, and was kept instead\n" in card


@pytest.mark.parametrize(
    ("mean", "steps", "released"),
    [
        (
            5.88,
            [6],
            "the checkpoint of step 6: development BLEU 39.34, against 5.88 for the average",
        ),
        (
            40.38,
            [6, 9, 12],
            "the average of 3 checkpoints (steps 6, 9, 12): development BLEU 40.38, against 39.34 "
            "for the best checkpoint",
        ),
    ],
)
def test_by_default_what_scores_best_is_released(
    trained, judge, mean: float, steps: list[int], released: str
) -> None:
    judge([mean])
    make_mean(trained, Averaging().if_worse)
    assert read_record(trained)["steps"] == steps
    assert ModelRecord.read(trained.workspace).describe_release() == released


def test_a_better_mean_is_not_replaced(trained, judge) -> None:
    judge([40.38])
    make_mean(trained, "replace")
    assert read_record(trained)["steps"] == [6, 9, 12]


def test_what_was_measured_is_not_measured_again(trained, judge, capsys) -> None:
    recipe, workspace = trained.recipe, trained.workspace
    judge([35.43])
    make_mean(trained)
    mean = read_weights(workspace.model)
    assert is_averaged(recipe, workspace)
    capsys.readouterr()
    warn_if_worse(recipe.training.averaging, workspace, options=OPTIONS)
    assert (
        "warning: the average scores worse than the best single checkpoint"
        in capsys.readouterr().err
    )

    replacing = with_if_worse(recipe, "replace")
    assert not is_averaged(replacing, workspace)
    make_mean(trained, "replace")
    assert read_record(trained)["steps"] == [6]
    assert is_averaged(replacing, workspace)
    assert not is_averaged(recipe, workspace)
    capsys.readouterr()
    warn_if_worse(replacing.training.averaging, workspace, options=OPTIONS)
    assert capsys.readouterr().err == ""

    make_mean(trained)
    assert read_weights(workspace.model) == mean
    assert is_averaged(recipe, workspace)
    assert "measuring" not in capsys.readouterr().err


def test_nothing_is_measured_where_the_recipe_says_so(trained, judge, capsys) -> None:
    judge([])
    make_mean(trained, "ignore")
    assert capsys.readouterr().err == "averaged 3 checkpoints (steps 6, 9, 12)\n"
    assert "comparison" not in read_record(trained)
    assert is_averaged(with_if_worse(trained.recipe, "ignore"), trained.workspace)
    assert not is_averaged(trained.recipe, trained.workspace)


def test_a_model_of_one_checkpoint_is_no_mean(trained, judge) -> None:
    judge([])
    average(trained.recipe, trained.workspace, choose="last", num_checkpoints=1)
    assert "comparison" not in read_record(trained)


def test_a_comparison_holds_as_long_as_checkpoints_and_settings_are_the_same(
    trained, judge
) -> None:
    recipe, workspace = trained.recipe, trained.workspace
    judge([35.43])
    make_mean(trained)
    change_state(workspace, 3, score=50.0)
    assert not is_averaged(recipe, workspace)
    change_state(workspace, 3, score=12.0)
    assert is_averaged(recipe, workspace)
    two = recipe.training.validation.model_copy(update={"beam_size": 2})
    training = recipe.training.model_copy(update={"validation": two})
    assert not is_averaged(recipe.model_copy(update={"training": training}), workspace)


@pytest.mark.parametrize(
    ("step", "section", "changes", "scores", "expected"),
    [
        # What validation overrides changes no score.
        (6, "inference", {"beam_size": 9, "engine": "ctranslate2"}, [35.0], (6, 39.34)),
        # The best was measured otherwise, so its number says nothing: it is measured again.
        (6, "inference", {"max_extra_tokens": 9}, [35.0, 37.5], (9, 38.5)),
        (6, "inference", {"max_extra_tokens": 9}, [35.0, 44.0], (6, 44.0)),
        (6, "evaluation", {"lowercase": True}, [35.0, 44.0], (6, 44.0)),
        (6, "training", {"label_smoothing": 0.3}, [35.0, 44.0], (6, 44.0)),
    ],
)
def test_scores_are_compared_only_if_they_were_measured_alike(
    trained,
    judge,
    step: int,
    section: str,
    changes: dict[str, object],
    scores: list[float],
    expected: tuple[int, float],
) -> None:
    change_recipe(trained.workspace, step, section, **changes)
    left = judge(scores)
    make_mean(trained)
    assert left == []
    single = read_record(trained)["comparison"]["single"]
    assert (single["steps"], single["metrics"]["bleu"]) == ([expected[0]], expected[1])


def test_by_loss_the_lower_is_the_better(trained, judge, capsys) -> None:
    metric = trained.recipe.training.validation.model_copy(update={"metric": "loss"})
    training = trained.recipe.training.model_copy(update={"validation": metric})
    recipe = trained.recipe.model_copy(update={"training": training})
    for step, loss in ((3, 5.0), (6, 2.4), (9, 2.6), (12, 2.7)):
        change_state(trained.workspace, step, score=-loss)
        change_recipe(trained.workspace, step, "training", validation=metric.model_dump())
    # Its loss is 2.5.
    judge([-2.5])
    update_model(recipe, trained.workspace, device="cpu")
    said = capsys.readouterr().err
    assert "development loss 2.500, against 2.400 for the checkpoint of step 6;" in said
    assert read_record(trained)["comparison"]["single"]["metrics"] == {"loss": 2.4}


@pytest.mark.parametrize("fault", [MtkitError("no tokeniser"), torch.OutOfMemoryError()])
def test_a_mean_that_cannot_be_measured(
    trained, monkeypatch: pytest.MonkeyPatch, capsys, fault: Exception
) -> None:
    class Broken:
        def __init__(self, *_: object, **__: object) -> None:
            raise fault

    monkeypatch.setattr(evaluate_weights, "build_validator", Broken)
    before = read_record(trained)
    reason = "no tokeniser" if isinstance(fault, MtkitError) else "out of memory on cpu"
    with pytest.raises(MtkitError, match=reason):
        make_mean(trained, "replace")
    assert read_record(trained) == before
    make_mean(trained)
    assert read_record(trained)["steps"] == [6, 9, 12]
    said = capsys.readouterr().err
    assert f"warning: the average was not compared with single checkpoints: {reason}" in said


def test_what_is_said_of_the_mean_is_what_the_model_is_worth(trained) -> None:
    make_mean(trained)
    validator = TranslationValidator(
        TrainingRun.open(trained.recipe, trained.workspace), ProcessGroup(0, 1, torch.device("cpu"))
    )
    found = validator.validate(load_model_folder(trained.workspace.model).model)
    comparison = ModelRecord.read(trained.workspace).comparison
    assert comparison is not None
    expected = {**found.scores, "loss": found.metrics["loss"]}
    assert comparison.mean.metrics == expected


def test_a_checkpoint_s_recipe_gives_the_settings_that_it_was_measured_with(trained) -> None:
    recipe = load_recipe(trained.options[1], ["inference.beam_size=1", "inference.batch_tokens=9"])
    saved = CheckpointFolder(trained.workspace.checkpoints).list()
    tables = recipe.model_dump(mode="json", exclude_none=True)
    assert list_score_settings(saved[0].recipe) == list_score_settings(tables)
