"""Which checkpoints a mean is taken of, what is measured and what is kept."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit.errors import MtkitError
from mtkit.folders import remove_folder
from mtkit.model.config import read_settings
from mtkit.model.folder import load_model_folder
from mtkit.recipe.inference import Inference
from mtkit.training.averaging import evaluate_weights
from mtkit.training.averaging.average import (
    average,
    is_averaged,
    select_checkpoint,
    update_model,
    warn_if_worse,
)
from mtkit.training.averaging.evaluate_weights import mean_weights
from mtkit.training.distributed import ProcessGroup
from mtkit.training.metrics import read_metrics
from mtkit.training.training_run import TrainingRun
from mtkit.training.validation import ValidationResult
from mtkit.training.validators import TranslationValidator


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs lie that were trained once for all tests here."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def train_once(tiny_run, kept: Path):
    """A function that returns a trained run, a copy of the one that it was trained for first."""

    def make(name: str, *overrides: str):
        run = tiny_run(*overrides, name=name)
        if (kept / name).exists():
            shutil.rmtree(run.workspace.root)
            shutil.copytree(kept / name, run.workspace.root)
        else:
            assert run.train()
            shutil.copytree(run.workspace.root, kept / name)
        return run

    return make


@pytest.fixture
def trained(train_once):
    """A run with checkpoints at steps 2, 4, 6 and 8, whose scores are then set by hand."""
    run = train_once(
        "by-hand",
        "training.max_steps=8",
        "training.checkpoint_every=2",
        "training.keep_best=4",
        "training.averaging.if_worse=warn",
    )
    for step, score in ((2, 30.0), (4, 40.0), (6, None), (8, 35.0)):
        set_score(run, step, score)
    return run


@pytest.fixture
def measured(train_once):
    """A run with checkpoints at steps 10, 20 and 30, whose winner has been selected."""
    # At this rate the first has learned one word; by characters, its BLEU is greater than none.
    rate = "training.schedule.peak=2e-2"
    steps = ("training.max_steps=30", "training.checkpoint_every=10")
    run = train_once("measured", *steps, rate, "evaluation.tokenize=char")
    select_checkpoint(run.recipe, run.workspace, device="cpu")
    return run


def set_score(run, step: int, score: float | None) -> None:
    path = run.workspace.checkpoints / f"step-{step:08d}" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "score": score}))


def with_training(recipe, **averaging: object):
    """Returns the recipe with these keys of `training.averaging`."""
    section = recipe.training.averaging.model_copy(update=averaging)
    training = recipe.training.model_copy(update={"averaging": section})
    return recipe.model_copy(update={"training": training})


def read_record(run) -> dict:
    return run.workspace.read_manifest()["model"]


def validate(run, model) -> dict[str, float]:
    validator = TranslationValidator(
        TrainingRun.open(run.recipe, run.workspace), ProcessGroup(0, 1, torch.device("cpu"))
    )
    validation = validator.validate(model)
    return {**validation.scores, "loss": validation.metrics["loss"]}


@pytest.mark.parametrize(
    # Step 6 has no score: it was saved at a stop, between two regular checkpoints.
    ("choose", "count", "steps"),
    [
        ("last", 2, [4, 8]),
        ("best", 2, [4, 8]),
        ("best", 1, [4]),
        ("last", 3, [2, 4, 8]),
        ("spaced", 2, [2, 8]),
        ("spaced", 1, [8]),
    ],
)
def test_which_checkpoints(trained, choose: str, count: int, steps: list[int]) -> None:
    average(trained.recipe, trained.workspace, choose=choose, num_checkpoints=count)
    expected = mean_weights(
        [trained.workspace.checkpoints / f"step-{s:08d}" / "model.safetensors" for s in steps]
    )
    model = load_file(trained.workspace.model / "model.safetensors")
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in model)
    record = trained.workspace.read_manifest()["model"]
    assert (record["made_by"], record["steps"]) == ("average", steps)


def test_fewer_than_wanted_is_said(trained, capsys: pytest.CaptureFixture[str]) -> None:
    average(trained.recipe, trained.workspace, choose="last", num_checkpoints=9)
    assert "warning: 9 checkpoints requested, 3 regular ones found" in capsys.readouterr().err


def test_up_to_date_once_made(trained) -> None:
    assert not is_averaged(trained.recipe, trained.workspace)
    averaging = trained.recipe.training.averaging
    chosen = {"choose": averaging.choose, "num_checkpoints": averaging.num_checkpoints}
    average(trained.recipe, trained.workspace, **chosen)
    assert is_averaged(trained.recipe, trained.workspace)
    average(trained.recipe, trained.workspace, choose="best", num_checkpoints=1)
    assert not is_averaged(trained.recipe, trained.workspace)


def test_other_decoding_defaults_make_it_out_of_date(trained) -> None:
    averaging = trained.recipe.training.averaging
    chosen = {"choose": averaging.choose, "num_checkpoints": averaging.num_checkpoints}
    average(trained.recipe, trained.workspace, **chosen)
    changed = trained.recipe.model_copy(update={"inference": Inference(beam_size=7)})
    assert not is_averaged(changed, trained.workspace)


def test_checkpoints_of_another_model_are_refused(tiny_run) -> None:
    # Four heads have the shapes of two: nothing but the recipe tells them apart.
    tiny_run("training.max_steps=1").train()
    other = tiny_run("model.num_heads=4")
    with pytest.raises(MtkitError, match=r"another run: .*model\.num_heads was 2, now 4"):
        average(other.recipe, other.workspace, choose="last", num_checkpoints=1)


def test_the_best_beyond_those_kept_are_warned_of(trained, capsys) -> None:
    recipe = with_training(trained.recipe, if_worse="ignore")
    average(recipe, trained.workspace, choose="best", num_checkpoints=3)
    assert "warning" not in capsys.readouterr().err
    recipe = recipe.model_copy(
        update={"training": recipe.training.model_copy(update={"keep_best": 2})}
    )
    average(recipe, trained.workspace, choose="best", num_checkpoints=3)
    assert "training.keep_best keeps only the best 2;" in capsys.readouterr().err


def test_before_the_first_validation_there_is_nothing_to_average(tiny_run) -> None:
    run = tiny_run("training.max_steps=1")
    assert run.train()
    set_score(run, 1, None)
    model = (run.workspace.model / "model.safetensors").read_bytes()
    with pytest.raises(MtkitError, match="no checkpoint has a development score yet"):
        average(run.recipe, run.workspace, choose="last", num_checkpoints=2)
    assert (run.workspace.model / "model.safetensors").read_bytes() == model


def test_before_training(tiny_run) -> None:
    run = tiny_run()
    with pytest.raises(MtkitError, match="no checkpoints") as caught:
        average(run.recipe, run.workspace, choose="last", num_checkpoints=2)
    assert caught.value.hint == "run `mtkit train` first"


def test_the_recipe_may_ask_for_evenly_spaced_ones(trained) -> None:
    recipe = with_training(trained.recipe, choose="spaced", num_checkpoints=2)
    assert not is_averaged(recipe, trained.workspace)
    update_model(recipe, trained.workspace)
    assert read_record(trained)["steps"] == [2, 8]
    assert is_averaged(recipe, trained.workspace)


def test_single_checkpoints_get_the_numbers_of_training_to_the_last_digit(measured) -> None:
    logged = {
        line["step"]: {name: line[name] for name in ("bleu", "chrf", "loss")}
        for line in read_metrics(measured.workspace.metrics_file)
        if line["kind"] == "dev"
    }
    candidates = {
        one["name"]: (one["steps"], one["metrics"])
        for one in read_record(measured)["selection"]["candidates"]
    }
    best = max(logged, key=lambda step: logged[step]["bleu"])
    assert candidates["last"] == ([30], logged[30])
    assert candidates["best"] == ([best], logged[best])
    assert logged[best]["bleu"] > 0


def test_what_is_kept_is_what_was_measured(measured) -> None:
    record = read_record(measured)
    candidates = record["selection"]["candidates"]
    best = max(candidates, key=lambda one: one["metrics"]["bleu"])
    assert record["steps"] == best["steps"]
    model = load_model_folder(measured.workspace.model).model
    assert validate(measured, model) == best["metrics"]


def test_a_mean_is_measured_with_the_mean_of_the_weights(measured) -> None:
    [found] = [
        one["metrics"]
        for one in read_record(measured)["selection"]["candidates"]
        if one["steps"] == [10, 20, 30]
    ]
    weights = [load_file(path) for path in measured.workspace.checkpoints.glob("*/model.*")]
    model = load_model_folder(measured.workspace.model).model
    for name, weight in model.named_parameters():
        mean = torch.stack([one[name].double() for one in weights]).mean(0)
        weight.data.copy_(mean)
    assert found["loss"] == pytest.approx(validate(measured, model)["loss"], rel=1e-6)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], None]:
    """A function that sets the development scores that candidates get, one after the other."""

    def set_scores(scores: list[float]) -> None:
        left = iter(scores)

        class Judge:
            def __init__(self, *_: object, **__: object) -> None: ...

            def validate(self, _: object) -> ValidationResult:
                score = next(left)
                return ValidationResult(score, {"loss": 2.5, "nll": 2.0, "bleu": score}, [])

        monkeypatch.setattr(evaluate_weights, "build_validator", Judge)

    return set_scores


def test_the_winner_its_record_and_its_card(trained, judge, capsys) -> None:
    recipe = with_training(trained.recipe, num_checkpoints=2)
    # The last, the best, the means of 4 and 8, which are the last and the best two, of all three,
    # and of 2 and 8.
    judge([30.0, 40.0, 41.256, 35.0, 12.5])
    select_checkpoint(recipe, trained.workspace, device="cpu")
    record = read_record(trained)
    assert (record["made_by"], record["steps"]) == ("average", [4, 8])
    assert record["selection"] == {
        "metric": "bleu",
        "checkpoints": [2, 4, 6, 8],
        "candidates": [
            {"name": "last", "steps": [8], "metrics": {"bleu": 30.0, "loss": 2.5}},
            {"name": "best", "steps": [4], "metrics": {"bleu": 40.0, "loss": 2.5}},
            {"name": "last 2, best 2", "steps": [4, 8], "metrics": {"bleu": 41.256, "loss": 2.5}},
            {"name": "last 3, best 3", "steps": [2, 4, 8], "metrics": {"bleu": 35.0, "loss": 2.5}},
            {"name": "spaced 2", "steps": [2, 8], "metrics": {"bleu": 12.5, "loss": 2.5}},
        ],
    }
    files = [
        trained.workspace.checkpoints / f"step-0000000{step}" / "model.safetensors"
        for step in (4, 8)
    ]
    expected, model = mean_weights(files), load_file(trained.workspace.model / "model.safetensors")
    assert all(torch.equal(model[name], expected[name]) for name in model)
    card = (trained.workspace.model / "README.md").read_text()
    assert "- weights: the average of the checkpoints of steps 4, 8\n" in card
    assert (
        "- compared on the development set: the best by BLEU was kept\n"
        "  - last: BLEU 30.00, loss 2.500 (step 8)\n"
        "  - best: BLEU 40.00, loss 2.500 (step 4)\n"
        "  - last 2, best 2: BLEU 41.26, loss 2.500 (steps 4, 8)\n"
        "  - last 3, best 3: BLEU 35.00, loss 2.500 (steps 2, 4, 8)\n"
        "  - spaced 2: BLEU 12.50, loss 2.500 (steps 2, 8)\n"
    ) in card
    said = capsys.readouterr().err
    assert "comparing on the development set: 20 sentences, beam 1\n" in said
    assert "evaluating 3 of 5: last 2, best 2\n" in said
    assert "winner by development BLEU is last 2, best 2; model/ is made from 2 checkpoints" in said


def test_a_single_checkpoint_that_wins_is_the_model_bit_by_bit(trained, judge) -> None:
    judge([30.0, 40.0, 40.0, 39.0])
    select_checkpoint(trained.recipe, trained.workspace, device="cpu")
    checkpoint = trained.workspace.checkpoints / "step-00000004"
    assert (trained.workspace.model / "model.safetensors").read_bytes() == (
        checkpoint / "model.safetensors"
    ).read_bytes()
    card = (trained.workspace.model / "README.md").read_text()
    assert "- weights: the checkpoint of step 4\n" in card


def test_what_was_selected_stays_until_the_checkpoints_are_others(trained, judge) -> None:
    recipe = trained.recipe
    # The last is of the recipe's mean, once the checkpoints are others.
    judge([30.0, 40.0, 35.0, 35.0, 36.0])
    select_checkpoint(recipe, trained.workspace, device="cpu")
    # The recipe's mean is of 2, 4 and 8.
    assert read_record(trained)["steps"] == [4]
    assert is_averaged(recipe, trained.workspace)
    assert is_averaged(with_training(recipe, num_checkpoints=2), trained.workspace)

    changed = recipe.model_copy(update={"inference": Inference(beam_size=7)})
    selection = read_record(trained)["selection"]
    assert not is_averaged(changed, trained.workspace)
    update_model(changed, trained.workspace)
    assert is_averaged(changed, trained.workspace)
    assert read_settings(trained.workspace.model).beam_size == 7
    assert (read_record(trained)["steps"], read_record(trained)["selection"]) == ([4], selection)

    remove_folder(trained.workspace.checkpoints / "step-00000002")
    assert not is_averaged(recipe, trained.workspace)
    update_model(recipe, trained.workspace)
    assert read_record(trained)["steps"] == [4, 8]
    assert "selection" not in read_record(trained)


def test_a_mean_made_by_hand_takes_the_place_of_what_was_selected(trained, judge) -> None:
    judge([30.0, 40.0, 35.0, 35.0, 36.0])
    select_checkpoint(trained.recipe, trained.workspace, device="cpu")
    average(trained.recipe, trained.workspace, choose="spaced", num_checkpoints=2)
    assert read_record(trained)["steps"] == [2, 8]
    assert not is_averaged(trained.recipe, trained.workspace)


def test_a_checkpoint_of_a_stop_is_measured_as_the_last_one(trained, judge, capsys) -> None:
    set_score(trained, 8, None)
    judge([50.0, 40.0, 35.0])
    select_checkpoint(trained.recipe, trained.workspace, device="cpu")
    assert read_record(trained)["steps"] == [8]
    names = [one["name"] for one in read_record(trained)["selection"]["candidates"]]
    assert names == ["last", "best", "last 2, best 2, spaced 2"]
    warning = "warning: 5 checkpoints requested, 2 found: comparing averages of those"
    assert warning in capsys.readouterr().err


def test_before_the_first_validation_the_last_checkpoint_is_all_there_is(tiny_run, capsys) -> None:
    run = tiny_run("training.max_steps=1")
    run.train()
    set_score(run, 1, None)
    select_checkpoint(run.recipe, run.workspace, device="cpu")
    assert read_record(run)["steps"] == [1]
    warning = "warning: 5 checkpoints requested, 0 found: no averages to compare"
    assert warning in capsys.readouterr().err


def test_nothing_to_select_from(tiny_run) -> None:
    run = tiny_run()
    with pytest.raises(MtkitError, match="no checkpoints"):
        select_checkpoint(run.recipe, run.workspace, device="cpu")
    with pytest.raises(MtkitError, match="no device 'tpu'"):
        select_checkpoint(run.recipe, run.workspace, device="tpu")


@pytest.mark.parametrize(
    "said",
    [
        {"training": {"averaging": [], "validation": 5}, "model": 7, "data": "x"},
        {"training": "x"},
        {"training": {}},
    ],
)
def test_a_checkpoint_whose_recipe_is_none_is_damaged(trained, said: dict) -> None:
    path = trained.workspace.checkpoints / "step-00000002" / "state.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "recipe": {**facts["recipe"], **said}}))
    with pytest.raises(
        MtkitError, match="step-00000002: damaged: it doesn't contain a valid recipe"
    ):
        average(trained.recipe, trained.workspace, choose="last", num_checkpoints=3)


@pytest.mark.parametrize("said", [[1], {"comparison": {"basis": ""}}, {"comparison": 5}])
def test_a_manifest_that_says_nothing_usable_is_as_none(trained, said: object) -> None:
    manifest = trained.workspace.read_manifest()
    trained.workspace.manifest_file.write_text(json.dumps({**manifest, "model": said}))
    assert not is_averaged(trained.recipe, trained.workspace)
    warn_if_worse(trained.recipe.training.averaging, trained.workspace)
