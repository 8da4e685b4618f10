"""`inference.engine = "auto"`: what translates, and what it says of it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app
from mtkit.engine.library import choose_library
from mtkit.model.config import open_model_folder
from mtkit.pipeline import engine_choice
from mtkit.pipeline.engine_choice import find_export_fault, read_quantization
from mtkit.pipeline.export import update_export
from mtkit.pipeline.serve import list_run

LINES = "The man sleeps.\n\nThe woman buys an apple.\n"
CHOSEN = "engine: ctranslate2 ("
LEFT = "engine: torch, since "


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A run with a model of one update, whose recipe names no engine."""
    run = tiny_run("training.max_steps=1")
    run.train_once(kept)
    return run


@pytest.fixture
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has no engine of our own, as where mtkit was installed without a compiler."""
    monkeypatch.setattr(engine_choice, "suit_native_engine", lambda *_: None)


def call(name: str, options: Sequence[object], stdin: str = "", code: int = 0) -> Any:
    arguments = [name, *map(str, options)]
    done = CliRunner().invoke(app, arguments, prog_name="mtkit", input=stdin)
    assert done.exit_code == code, done.stderr
    return done


def translate(run, *overrides: str, code: int = 0) -> Any:
    options = [*run.options, *(part for each in overrides for part in ("--set", each))]
    return call("translate", options, LINES, code)


def test_without_an_export_torch_translates_and_nothing_is_said(trained) -> None:
    done = translate(trained)
    assert done.stdout.count("\n") == 3
    assert "engine" not in done.stderr


def test_an_export_in_integers_is_taken_and_said_once(trained) -> None:
    call("export", [*trained.options, "--quantization", "int8"])
    done = translate(trained)
    assert done.stdout.count("\n") == 3
    assert done.stderr.count(f"{CHOSEN}{trained.workspace.export})") == 1
    assert "engine" not in translate(trained, "inference.engine=torch").stderr


def test_without_our_own_engine_an_export_is_taken(trained, not_compiled) -> None:
    by_torch = translate(trained, "inference.engine=torch")
    call("export", trained.options)
    done = translate(trained)
    assert CHOSEN in done.stderr
    assert done.stdout == by_torch.stdout


@pytest.mark.skipif(choose_library() is None, reason="installed without a C++ compiler")
def test_mtkits_own_engine_is_taken_for_the_same_numbers(trained) -> None:
    call("export", trained.options)
    done = translate(trained)
    assert f"{LEFT}mtkit's own engine is compiled" in " ".join(done.stderr.split())
    call("export", [*trained.options, "--quantization", "int8"])
    assert CHOSEN in translate(trained).stderr
    assert LEFT in translate(trained, "inference.allow_int8=true").stderr


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("inference.sampling={top_k=2}", "inference.sampling"),
        ("inference.coverage_penalty=0.2", "coverage_penalty"),
        ("inference.precision=fp32", "inference.precision"),
        ("inference.protect={}", "inference.protect"),
        ("inference.glossary={}", "inference.glossary"),
        ("inference.max_source_tokens=2000", "inference.max_source_tokens"),
    ],
)
def test_settings_that_it_lacks_or_is_slow_with_leave_the_export_aside(
    trained, not_compiled, override: str, reason: str
) -> None:
    call("export", trained.options)
    done = translate(trained, override)
    assert LEFT in done.stderr
    assert reason in done.stderr
    assert done.stdout == translate(trained, override, "inference.engine=torch").stdout


def test_protection_is_as_good_with_an_export_as_without(trained) -> None:
    line = "The woman buys an apple.\n"
    options = [*trained.options, "--set", 'inference.protect.patterns=["an apple"]']
    before = call("translate", options, line)
    assert "an apple" in before.stdout
    call("export", trained.options)
    after = call("translate", options, line)
    assert after.stdout == before.stdout
    # What CTranslate2 does, too, leaves it the choice.
    options += ["--set", 'inference.protect.ways=["n_best"]']
    call("export", [*options, "--quantization", "int8"])
    assert CHOSEN in call("translate", options, line).stderr


def test_an_engine_named_without_a_feature_in_use_warns_or_refuses(trained) -> None:
    call("export", trained.options)
    named = ("inference.engine=ctranslate2",)
    done = translate(trained, *named, "inference.protect={}")
    assert "warning: inference.protect: CTranslate2" in done.stderr
    done = translate(trained, *named, "inference.glossary={}", code=1)
    assert "inference.glossary: CTranslate2" in done.stderr


def test_a_server_takes_what_keeps_to_the_terms_of_a_request(trained, capsys) -> None:
    call("export", trained.options)
    folders, settings = list_run(trained.recipe.inference, trained.workspace, "cpu")
    assert (folders, settings.engine) == ([trained.workspace.model], "torch")
    assert f"{LEFT}requests may have glossaries" in " ".join(capsys.readouterr().err.split())


def test_a_server_takes_an_export_in_8_bits_as_translate_does(trained, capsys) -> None:
    call("export", [*trained.options, "--quantization", "int8"])
    capsys.readouterr()
    folders, settings = list_run(trained.recipe.inference, trained.workspace, "cpu")
    assert (folders, settings.engine) == ([trained.workspace.export], "ctranslate2")
    said = " ".join(capsys.readouterr().err.split())
    assert f"{CHOSEN}{trained.workspace.export}), since the model is exported in int8" in said
    assert "requests with a glossary are rejected: --set inference.engine=torch" in said
    by_name = trained.recipe.inference.model_copy(update={"engine": "torch"})
    torch = trained.recipe.model_copy(update={"inference": by_name})
    assert list_run(torch.inference, trained.workspace, "cpu")[0] == [trained.workspace.model]


def test_a_stale_export_is_never_taken(trained, not_compiled, tiny_run) -> None:
    call("export", trained.options)
    again = tiny_run("training.max_steps=2")
    call("train", again.options)
    call("average", again.options)
    done = translate(again)
    assert f"{LEFT}{again.workspace.export} was exported from a different model" in done.stderr
    assert "mtkit export --workspace" in done.stderr
    assert done.stdout == translate(again, "inference.engine=torch").stdout


def test_a_damaged_export_is_left_aside(trained) -> None:
    call("export", trained.options)
    (trained.workspace.export / "ctranslate2" / "config.json").write_text("{")
    assert LEFT in translate(trained).stderr


def test_without_ctranslate2_torch_translates(trained, monkeypatch) -> None:
    call("export", trained.options)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    done = translate(trained)
    assert LEFT in done.stderr
    assert "ctranslate2" in done.stderr.lower()


def test_eight_bits_by_hand_are_taken_and_said_once(trained) -> None:
    done = call("export", [*trained.options, "--quantization", "int8"])
    assert "use this export here from now on" in " ".join(done.stderr.split())
    assert CHOSEN in translate(trained).stderr
    assert "from now on" not in call("export", trained.options).stderr


def test_a_gpu_that_ctranslate2_sees_leaves_the_export_aside(trained, monkeypatch) -> None:
    call("export", trained.options)
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 1)
    assert f"{LEFT}on a GPU" in translate(trained).stderr


def test_scores_dont_depend_on_what_is_exported(trained) -> None:
    call("export", trained.options)
    call("score", trained.options)
    assert json.loads(trained.workspace.scores_file.read_text())["engine"] == "torch"


def test_a_folder_is_run_by_the_engine_that_it_was_made_for(trained) -> None:
    call("export", trained.options)
    for folder in (trained.workspace.model, trained.workspace.export):
        options = ("--model", folder, "--engine", "auto")
        assert call("translate", options, LINES).stdout.count("\n") == 3


def test_run_exports_what_translate_takes(trained, not_compiled, capsys) -> None:
    recipe, workspace = trained.recipe, trained.workspace
    update_export(recipe, workspace, device="cpu")
    assert open_model_folder(workspace.export).settings.engine == "ctranslate2"
    made = (workspace.export / "ctranslate2" / "model.bin").stat()
    capsys.readouterr()
    update_export(recipe, workspace, device="cpu")
    assert capsys.readouterr().err == "export: up to date\n"
    after = (workspace.export / "ctranslate2" / "model.bin").stat()
    assert (made.st_ino, made.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_run_makes_a_stale_export_again_in_its_own_type(trained, tiny_run) -> None:
    call("export", [*trained.options, "--quantization", "int8"])
    again = tiny_run("training.max_steps=2", "inference.engine=ctranslate2")
    call("train", again.options)
    call("average", again.options)
    assert find_export_fault(again.workspace) is not None
    update_export(again.recipe, again.workspace, device="cpu")
    assert find_export_fault(again.workspace) is None
    assert read_quantization(again.workspace) == "int8"


@pytest.mark.parametrize(
    "override",
    [
        "inference.engine=torch",
        "inference.precision=fp32",
        "inference.coverage_penalty=0.2",
        "inference.protect={}",
        "inference.glossary={}",
    ],
)
def test_run_exports_nothing_that_translate_would_leave_aside(trained, tiny_run, override) -> None:
    update_export(
        tiny_run("training.max_steps=1", override).recipe, trained.workspace, device="cpu"
    )
    assert not trained.workspace.export.exists()


def test_run_leaves_an_export_by_hand_as_it_is(trained) -> None:
    call("export", [*trained.options, "--quantization", "int8"])
    made = (trained.workspace.export / "ctranslate2" / "model.bin").stat()
    update_export(trained.recipe, trained.workspace, device="cpu")
    after = (trained.workspace.export / "ctranslate2" / "model.bin").stat()
    assert (made.st_ino, made.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_run_goes_on_where_the_export_fails_and_says_so(trained, not_compiled, capsys) -> None:
    trained.workspace.export.mkdir()
    (trained.workspace.export / "notes.txt").write_text("mine")
    update_export(trained.recipe, trained.workspace, device="cpu")
    error = capsys.readouterr().err
    assert "warning: not exported for CTranslate2: " in error
    assert "notes.txt" in error
    assert (trained.workspace.export / "notes.txt").read_text() == "mine"
