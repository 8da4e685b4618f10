"""The order of the stages, and what is skipped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import EvaluatedTestSet, ReferenceText
from mtkit.evaluation.results import SystemResult, SystemScore
from mtkit.pipeline import run as run_module
from mtkit.pipeline.hardware import Hardware
from mtkit.pipeline.run import run
from mtkit.pipeline.score_files import ScoredText
from mtkit.pipeline.translation_files import TranslatedTestSet, TranslationFiles
from mtkit.recipe import load_recipe
from mtkit.recipe.evaluation import Evaluation
from mtkit.training import distributed
from mtkit.training.averaging.model_record import ModelRecord
from mtkit.workspace import Workspace

SENTENCES = [f"sentence {number}" for number in range(12)]
RESULT = SystemResult("", (SystemScore("BLEU", 91.5, "nrefs:1"),))
SCORED = ScoredText(
    EvaluatedTestSet("phrasebook-test", 12, (RESULT,), {}, Evaluation()),
    {"": SENTENCES},
    ReferenceText("phrasebook-test", [SENTENCES]),
)


class Stages:
    """Stands for the stages: writes down which of them did work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.up_to_date: set[str] = set()
        self.exit_code = 0

        def work(name: str, result: Any = None) -> Callable[..., Any]:
            def do(*_: object, **__: object) -> Any:
                self.done.append(name)
                return self.exit_code if name == "train" else result

            return do

        def is_done(name: str) -> Callable[..., bool]:
            return lambda *_: name in self.up_to_date

        replacements: dict[str, Callable[..., Any]] = {
            "prepare": work("prepare"),
            "train": work("train"),
            "update_model": work("average"),
            "score": work("score", [SCORED]),
            "is_prepared": is_done("prepare"),
            "is_trained": is_done("train"),
            "is_trained_without_checkpoints": is_done("model"),
            "is_averaged": is_done("average"),
        }
        for name, replacement in replacements.items():
            monkeypatch.setattr(run_module, name, replacement)
        translation = TranslatedTestSet("phrasebook-test", SENTENCES, [SENTENCES], SENTENCES)
        monkeypatch.setattr(TranslationFiles, "read", lambda _: translation)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    return Stages(monkeypatch)


def run_all(*overrides: str) -> int:
    recipe = load_recipe("phrasebook-en-de", overrides)
    options = ["--recipe", "phrasebook-en-de"]
    return run(recipe, Workspace(Path("runs/demo")), hardware=Hardware(), options=options)


def test_all_stages_in_order(stages: Stages) -> None:
    assert run_all() == 0
    assert stages.done == ["prepare", "train", "average", "score"]


def test_what_is_up_to_date_is_skipped_and_said(
    stages: Stages, capsys: pytest.CaptureFixture[str]
) -> None:
    stages.up_to_date = {"prepare", "train"}
    assert run_all() == 0
    assert stages.done == ["average", "score"]
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["prepare: up to date", "train: already finished"]


def test_a_finished_model_without_checkpoints_is_neither_trained_nor_averaged(
    stages: Stages, capsys: pytest.CaptureFixture[str]
) -> None:
    stages.up_to_date = {"prepare", "model"}
    assert run_all() == 0
    assert stages.done == ["score"]
    assert "train: already finished; without its checkpoints" in capsys.readouterr().err


def test_a_mean_that_does_worse_is_told_of_whether_it_is_made_or_up_to_date(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(run_module, "update_model", lambda *_, **keywords: told.append(keywords))
    monkeypatch.setattr(run_module, "warn_if_worse", lambda *_, **keywords: told.append(keywords))
    options = ["--recipe", "phrasebook-en-de"]
    run_all()
    assert told == [{"device": "auto", "options": options}]
    stages.up_to_date = {"average"}
    run_all()
    assert told[1:] == [{"options": options}]


def test_a_training_that_was_stopped_ends_the_run(stages: Stages) -> None:
    stages.exit_code = 75
    assert run_all() == 75
    assert stages.done == ["prepare", "train"]


@pytest.mark.usefixtures("stages")
def test_the_end_shows_scores_five_sentences_and_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_all()
    captured = capsys.readouterr()
    assert captured.out == "phrasebook-test\tBLEU\t91.50\tnrefs:1\n"
    assert "91.50" in captured.err
    assert [line.split()[-1] for line in captured.err.splitlines() if "hypothesis " in line] == [
        "0", "2", "4", "7", "9"
    ]  # fmt: skip
    assert 'echo "..." | mtkit translate --recipe phrasebook-en-de' in captured.err


@pytest.mark.usefixtures("stages")
def test_the_end_says_what_was_released(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = ModelRecord(made_by="average", steps=[1500, 3000])
    monkeypatch.setattr(ModelRecord, "read", lambda _: record)
    run_all()
    said = capsys.readouterr().err
    assert "released: the average of 2 checkpoints (steps 1,500, 3,000)\n" in said


def test_a_recipe_without_test_sets_ends_with_its_model(stages: Stages) -> None:
    assert run_all("~evaluation.test_sets") == 0
    assert stages.done == ["prepare", "train", "average"]


def test_too_few_gpus_are_told_before_anything_is_prepared(stages: Stages, monkeypatch) -> None:
    monkeypatch.setattr(distributed.torch.cuda, "device_count", lambda: 0)
    recipe = load_recipe("phrasebook-en-de")
    eight = Hardware(num_processes=8, device="cuda")
    with pytest.raises(MtkitError, match="--gpus 8: this machine has no GPU"):
        run(recipe, Workspace(Path("runs/demo")), hardware=eight, options=[])
    assert stages.done == []


def test_workers_of_torchrun_do_not_write_the_same_files(stages: Stages, monkeypatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with pytest.raises(MtkitError, match="torchrun started this process"):
        run_all()
    assert stages.done == []


def test_missing_files_are_told_before_anything_is_prepared(stages: Stages) -> None:
    for override in (
        'inference.rerank.models=[{path="nix"}]',
        "training.validation.metric=./nix",
        "evaluation.glossary=nix.tsv",
    ):
        with pytest.raises(MtkitError, match="nix"):
            run_all(override)
    assert stages.done == []


@pytest.mark.parametrize(
    ("name", "changes", "use"),
    [
        ("phrasebook-en-de", [], 'to translate with it:\n  echo "..." | mtkit translate\n'),
        ("phrasebook-en-de", ["data.train.0.tag=<de>"], '  echo "<de> ..." | mtkit translate\n'),
        # Not a language.
        ("phrasebook-en-de", ["data.train.0.tag=<BT>"], '  echo "..." | mtkit translate\n'),
        ("gum-parsing", [], "; to parse with it:\n"),
    ],
)
def test_the_end_says_how_to_use_the_model(
    tmp_path: Path, capsys, name: str, changes: list[str], use: str
) -> None:
    run_module._show_use(load_recipe(name, changes), Workspace(tmp_path), [])
    assert use in capsys.readouterr().err
