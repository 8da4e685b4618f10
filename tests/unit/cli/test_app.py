"""Exit codes and streams of the `mtkit` command, in this process where that is enough."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mtkit
from mtkit.cli.app import app
from mtkit.engine.library import describe_library
from mtkit.errors import MtkitError

from ... import warm


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments, prog_name="mtkit")


def run_failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Any:
    """Runs a command whose front door raises."""

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("mtkit.pipeline.init.init", fail)
    return run("init", "phrasebook-en-de")


def test_version() -> None:
    result = run("--version")
    version, kernels = result.stdout.splitlines()
    assert (result.exit_code, version) == (0, f"mtkit {mtkit.__version__}")
    assert kernels == f"engine: {describe_library()}"


def test_help_names_the_commands_in_the_order_of_the_road() -> None:
    result = run("--help")
    commands = [line.split()[0] for line in result.stdout.partition("Commands:\n")[2].splitlines()]
    road = [
        "init",
        "split",
        "prepare",
        "plan",
        "train",
        "average",
        "translate",
        "serve",
        "calibrate",
        "align",
        "attend",
        "export",
        "import",
        "score",
        "tune",
        "run",
    ]
    assert (result.exit_code, commands) == (0, road)


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from mtkit.cli.app import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'pydantic', 'sacrebleu', 'numpy', 'sentencepiece', 'rich', 'datasets'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], "No such command 'fly'"),
        (["fly:100:[red]"], "No such command 'fly:100:[red]'"),
        (["train", "--gpus", ":100:[b]"], "'--gpus'"),
        (["train", "--steps", "3"], "No such option: --steps"),
        (["train", "--gpus", "many"], "'--gpus'"),
        (["train", "--gpus", "0"], "'--gpus'"),
        (["train", "--gpus", "1", "--processes", "2"], "--gpus and --processes can't be combined"),
        (["plan", "--gpus", "8", "--hardware", "cpu"], "--gpus can't be combined with --hardware"),
        (["score", "--runs", "a", "--runs", "b"], "--runs and --against take one pattern each"),
        (["average", "--last", "1", "--best", "2"], "--last and --best can't be combined"),
        (["translate", "--model", "m", "--recipe", "r"], "--model can't be combined with --recipe"),
        (["translate", "my text.txt"], "mtkit translate < 'my text.txt'"),
        (["score", "--hypothesis", "h"], "--hypothesis needs --reference or --test-set"),
        (["score", "--reference", "r"], "--reference and --source need --hypothesis"),
        (
            ["score", "--test-set", "wmt14/full", "--hypothesis", "h", "--source", "s"],
            "--test-set can't be combined with --reference or --source",
        ),
    ],
)
def test_a_usage_fault_exits_2(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_users_fault_is_an_error_a_hint_and_exit_1(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_failing(monkeypatch, MtkitError("the [file] is gone", "fetch it: a[0]"))
    assert (result.exit_code, result.stdout) == (1, "")
    # Square brackets are rich's markup, and must survive.
    assert result.stderr == "error: the [file] is gone\nhint: fetch it: a[0]\n"


def test_an_interruption_is_one_line_and_exit_130(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_failing(monkeypatch, KeyboardInterrupt())
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    ("number", "words", "hint"),
    [
        (errno.ENOSPC, "runs/x: No space left on device", "free some disk space"),
        (errno.EACCES, "runs/x: Permission denied", "another folder"),
        (errno.ENOENT, "runs/x: No such file or directory", ""),
    ],
)
def test_what_the_system_refuses_is_an_error_with_its_path(
    monkeypatch: pytest.MonkeyPatch, number: int, words: str, hint: str
) -> None:
    result = run_failing(monkeypatch, OSError(number, os.strerror(number), "runs/x"))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {words}\n")
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_fault_of_ours_is_no_users_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_failing(monkeypatch, ZeroDivisionError("ours"))
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_reader_that_goes_away_ends_it_quietly(empty_folder: Path) -> None:
    (empty_folder / "text").write_text("a b c d\n")
    command = [*warm.command(), "score", "--json"]
    command += ["--hypothesis", "text", "--reference", "text"]
    # This checkout's mtkit, from another working directory, whether installed or not.
    environment = {**os.environ, "PYTHONPATH": str(Path(mtkit.__file__).parents[1])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        # 128 + SIGPIPE, as any filter ends whose reader has gone.
        assert (process.stderr.read(), process.wait()) == (b"", 141)


def test_init_then_a_second_init(empty_folder: Path) -> None:
    assert run("init", "phrasebook-en-de").exit_code == 0
    result = run("init", "phrasebook-en-de")
    assert result.exit_code == 1
    assert "mtkit.toml already exists" in result.stderr


def test_files_are_scored_without_a_recipe(empty_folder: Path) -> None:
    (empty_folder / "hypothesis").write_text("a b c d x\n")
    (empty_folder / "reference").write_text("a b c d e\n")
    (empty_folder / "other").write_text("a b c d x\n")
    files = ["--hypothesis", "hypothesis", "--reference", "reference"]
    plain = ["--set", "evaluation.tokenize=none", "--set", "evaluation.smooth=none"]
    result = run("score", *files, *plain, "--set", 'evaluation.metrics=["bleu"]')
    assert result.exit_code == 0
    [remark] = result.stderr.splitlines()
    assert remark.startswith("warning: hypothesis: One sentence can't be resampled")
    # 66.874 by hand: see tests/unit/evaluation/test_scores.py.
    [cells] = [line.split("\t") for line in result.stdout.splitlines()]
    assert cells[:3] == ["hypothesis", "BLEU", "66.87"]
    assert "tok:none|smooth:none" in cells[3]
    with_two = run("score", *files, "--reference", "other", "--json")
    scores = json.loads(with_two.stdout)
    assert [(score["metric"], round(score["value"], 6)) for score in scores] == [
        ("BLEU", 100.0), ("chrF2", 100.0), ("TER", 0.0)
    ]  # fmt: skip
    assert all(score["signature"].startswith("nrefs:2|") for score in scores)


def test_files_are_scored_as_the_projects_recipe_says(empty_folder: Path) -> None:
    (empty_folder / "text").write_text("a b c d\n")
    run("init", "multi30k-en-de-paper")
    result = run("score", "--hypothesis", "text", "--reference", "text")
    assert "tok:none|smooth:none" in result.stdout


def test_a_workspace_alone_is_read_with_the_recipe_saved_in_it(empty_folder: Path) -> None:
    saved = empty_folder / "elsewhere" / "recipe.toml"
    saved.parent.mkdir()
    run("init", "phrasebook-en-de")
    (empty_folder / "mtkit.toml").rename(saved)
    result = run("average", "--workspace", "elsewhere")
    assert result.exit_code == 1
    assert "elsewhere/checkpoints" in result.stderr


def test_stdin_of_translate_needs_a_model_first(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
    result = run("translate", "--model", "nowhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nowhere" in result.stderr


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_translate_without_an_input_or_an_output_is_refused(tmp_path: Path, name: str) -> None:
    redirection = {"stdin": "<&-", "stdout": ">&-"}[name]
    command = f'"{sys.executable}" -m mtkit translate --model nowhere {redirection}'
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        input=b"",
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(mtkit.__file__).parents[1])},
    )
    assert (done.returncode, done.stdout) == (1, b"")
    # Before the model is looked for.
    assert done.stderr.startswith(f"error: {name} is closed\nhint: use a file or a pipe".encode())
