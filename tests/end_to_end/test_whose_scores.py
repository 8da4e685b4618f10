"""Scores belong to the files that translated, as they were run, whatever other commands do."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app
from mtkit.engine.library import choose_library
from mtkit.errors import MtkitError
from mtkit.pipeline import score as score_module
from mtkit.pipeline.score import score

from .. import warm

pytestmark = pytest.mark.slow

ALREADY = "already translated"


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A finished run, with several checkpoints and the mean of two in `model/`."""
    run = tiny_run()
    run.train_once(kept)
    call("average", run, "--last", "2")
    return run


def call(name: str, run, *options: str, stdin: str = "", fails: bool = False) -> str:
    """Returns what a command says on stderr."""
    done = CliRunner().invoke(app, [name, *run.options, *options], prog_name="mtkit", input=stdin)
    assert done.exit_code == int(fails), done.stderr
    return done.stderr


def start(name: str, run, *options: str) -> subprocess.Popen[str]:
    command = run.command(name, *options)
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def average_elsewhere(run, *options: str) -> None:
    """Replaces the model from another process."""
    command = run.command("average", *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr


def read_scores(run) -> dict[str, Any]:
    scores: dict[str, Any] = json.loads(run.workspace.scores_file.read_text())
    recorded = run.workspace.read_manifest()["score"]
    assert {key: recorded[key] for key in scores} == scores
    return scores


def read_card(folder: Path) -> str:
    """Returns the scores in a model's card."""
    card = (folder / "README.md").read_text()
    found = re.search(r"^## Scores$(.*?)(?=^## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    return "" if found is None else found[1]


def test_each_precision_has_translations_of_its_own(trained) -> None:
    assert ALREADY not in call("score", trained, "-s", "inference.precision=fp32")
    assert read_scores(trained)["precision"] == "fp32"
    engine = "torch" if choose_library() is None else "native"
    assert f"`{engine}` on `cpu` in `fp32`" in read_card(trained.workspace.model)
    assert ALREADY in call("score", trained, "-s", "inference.precision=fp32")
    assert ALREADY not in call("score", trained, "-s", "inference.precision=int8")
    scores = read_scores(trained)
    assert (scores["engine"], scores["device"], scores["precision"]) == (engine, "cpu", "int8")
    # `auto` is fp32 or bf16, by the CPU.
    assert ALREADY not in call("score", trained)


def test_scores_in_an_exports_card_that_arent_its_own_say_so(trained) -> None:
    call("score", trained)
    call("export", trained)
    card = (trained.workspace.export / "README.md").read_text()
    assert "## Scores of the model that was exported\n\n| test set |" in card
    assert read_card(trained.workspace.export) == ""


@pytest.mark.parametrize("moment", ["before loading", "after loading", "before filing"])
def test_a_model_that_is_replaced_meanwhile_gets_no_other_models_scores(
    trained, monkeypatch, moment
) -> None:
    load, score_systems = score_module.load_run, score_module.score_systems

    def load_run(*arguments: Any, **options: Any) -> Any:
        if moment == "before loading":
            average_elsewhere(trained, "--last", "1")
        translator = load(*arguments, **options)
        if moment == "after loading":
            average_elsewhere(trained, "--last", "1")
        return translator

    def score_with_pause(*arguments: Any, **options: Any) -> Any:
        if moment == "before filing":
            average_elsewhere(trained, "--last", "1")
        return score_systems(*arguments, **options)

    monkeypatch.setattr(score_module, "load_run", load_run)
    monkeypatch.setattr(score_module, "score_systems", score_with_pause)
    with pytest.raises(MtkitError, match="was replaced by another command") as fault:
        score(trained.recipe, trained.workspace, device="cpu")
    assert "again" in fault.value.hint
    assert not trained.workspace.scores_file.exists()
    assert "score" not in trained.workspace.read_manifest()
    assert "Not scored yet" in read_card(trained.workspace.model)
    monkeypatch.undo()
    call("score", trained)
    assert "Not scored yet" not in read_card(trained.workspace.model)


def test_two_exports_at_once_are_each_whole(trained) -> None:
    exports = [start("export", trained, "-q", name) for name in ("float32", "int8")]
    for process in exports:
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
    folder = trained.workspace.export
    recorded = trained.workspace.read_manifest()["export"]
    used = ctranslate2.Translator(str(folder / "ctranslate2"), device="cpu").compute_type
    assert used == {"float32": "float32", "int8": "int8_float32"}[recorded["quantization"]]
    assert f", {recorded['quantization']}\n" in (folder / "README.md").read_text()
    assert not list(trained.workspace.root.glob(".*"))


def test_averages_at_once_are_each_whole(trained) -> None:
    averages = [start("average", trained, "--last", str(number)) for number in (1, 2, 3)]
    averages += [start("average", trained, "--best", "1")]
    for process in averages:
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
    recorded = trained.workspace.read_manifest()["model"]
    card = (trained.workspace.model / "README.md").read_text()
    steps = re.search(r"^- weights: the (?:average|checkpoint).*?([\d, ]+)$", card, re.MULTILINE)
    assert steps is not None
    assert list(map(int, steps[1].split(","))) == recorded["steps"]
    # The digest of digests, by hand.
    files = {
        name: hashlib.sha256((trained.workspace.model / name).read_bytes()).hexdigest()[:16]
        for name in (
            "alignment.json", "config.json", "joint.spm", "model.safetensors", "tokenizer.json"
        )
    }  # fmt: skip
    canonical = json.dumps(files, sort_keys=True).encode()
    assert recorded["digest"] == hashlib.sha256(canonical).hexdigest()[:16]
    assert not list(trained.workspace.root.glob(".*"))


def test_a_model_that_was_put_there_by_hand_isnt_taken_for_the_mean(trained) -> None:
    mean = ("-s", "training.averaging.num_checkpoints=2")
    call("run", trained, *mean)
    assert "average: up to date" in call("run", trained, *mean)
    weights = max(trained.workspace.checkpoints.glob("step-*")) / "model.safetensors"
    (trained.workspace.model / "model.safetensors").write_bytes(weights.read_bytes())
    assert "average: up to date" not in call("run", trained, *mean)
    assert "average: up to date" in call("run", trained, *mean)


SCORE_OFTEN = """
import sys
from pathlib import Path
from mtkit import workspace
from mtkit.pipeline import score as module
from mtkit.recipe import load_recipe

class Marker:
    def translate(self, lines):
        return [f"{line} {sys.argv[3]}" for line in lines]

module.load_run = lambda *_, **__: Marker()
workspace._environment = dict
recipe = load_recipe(sys.argv[1], [f"inference.beam_size={sys.argv[3]}"])
for _ in range(25):
    [scored] = module.score(recipe, workspace.Workspace(Path(sys.argv[2])), device="cpu")
    [lines] = scored.systems.values()
    assert all(line.endswith(f" {sys.argv[3]}") for line in lines), lines
"""


def test_scores_at_once_are_each_of_their_own_translations(trained) -> None:
    command = [warm.python(), "-c", SCORE_OFTEN, trained.options[1], str(trained.workspace.root)]
    scorers = [
        subprocess.Popen([*command, beam_size], stderr=subprocess.PIPE, text=True)
        for beam_size in ("1", "3")
    ]
    for process in scorers:
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
    filed = read_scores(trained)
    translations = trained.workspace.translations
    record = json.loads((translations / "held-out.json").read_text())
    hypotheses = (translations / "held-out.hyp").read_bytes()
    assert record["hypothesis"] == hashlib.sha256(hypotheses).hexdigest()[:16]
    assert hypotheses.decode().split("\n")[0].endswith(f" {record['inference']['beam_size']}")
    cell = f"| {filed['scores'][0]['value']:.2f} |"
    assert cell in read_card(trained.workspace.model)
    assert not list(translations.glob(".*"))
