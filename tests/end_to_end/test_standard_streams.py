"""Commands started by a shell that closes standard streams, fills them up, or can't take letters.

The shell closes them (`<&-`, `>&-`, `2>&-`): descriptors 0 to 2 are free for what is opened next.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

import mtkit
from mtkit.training.averaging.average import update_model

from .. import warm

CLOSING = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-"}
SOME = [names for count in (1, 2, 3) for names in combinations(CLOSING, count)]
# The third line is longer than any part, which is warned of, as is each line that is cut.
TEXT = b"The dog sleeps.\n" * 2 + b"word " * 2_000 + b"\n" + b"The cat sleeps.\n" * 43


def run_in_shell(
    command: list[str],
    redirections: str,
    folder: Path,
    *,
    text: bytes = b"",
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join(command)} {redirections}"],
        cwd=folder,
        input=text,
        capture_output=True,
        check=False,
        timeout=240,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(mtkit.__file__).parents[1]),
            **environment,
        },
    )
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    return done


def close(names: tuple[str, ...]) -> str:
    return " ".join(CLOSING[name] for name in names)


@pytest.fixture
def trained(tiny_run, kept):
    run = tiny_run("training.max_steps=3")
    run.train_once(kept)
    return run


@pytest.mark.parametrize("names", SOME, ids="+".join)
def test_a_command_without_data_does_its_work(tmp_path: Path, names: tuple[str, ...]) -> None:
    # Python's own start: other commands fork, see warm.py.
    command = [sys.executable, "-m", "mtkit", "init", "phrasebook-en-de"]
    done = run_in_shell(command, close(names), tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert (b"wrote mtkit.toml" in done.stderr) == ("stderr" not in names)
    assert (tmp_path / "mtkit.toml").is_file()


@pytest.mark.parametrize(
    ("command", "names"),
    [
        # A command with data of its own, however it is started; others in the two extremes.
        *((["plan"], names) for names in SOME),
        *(
            (command, names)
            for command in (["--help"], ["train", "--help"], ["--version"])
            for names in (("stdout",), ("stdin", "stdout", "stderr"))
        ),
        (["--help"], ("stdin", "stderr")),
    ],
    ids="+".join,
)
def test_what_is_for_stdout_is_never_lost_in_silence(
    tmp_path: Path, command: list[str], names: tuple[str, ...]
) -> None:
    (tmp_path / "mtkit.toml").write_text(
        (Path(__file__).parents[1] / "tiny.toml").read_text("utf-8"), "utf-8"
    )
    done = run_in_shell([*warm.command(), *command], close(names), tmp_path)
    if "stdout" not in names:
        assert (done.returncode, done.stdout != b"", done.stderr) == (0, True, b"")
        return
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"error: stdout is closed\n") == ("stderr" not in names)


@pytest.mark.parametrize("names", SOME, ids="+".join)
def test_scores_go_to_an_open_stdout(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "text").write_text("a b c d\n")
    command = [*warm.command(), "score", "--hypothesis", "text", "--reference", "text"]
    done = run_in_shell(command, close(names), tmp_path)
    # One sentence is warned of.
    assert (b"warning: text: " in done.stderr) == (names == ("stdin",))
    if "stdout" in names:
        assert (done.returncode, done.stdout) == (1, b"")
    else:
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "redirection"),
    [
        (2, "2>/dev/full"),
        pytest.param(1, "2>&-", marks=pytest.mark.patient),
        pytest.param(1, "2>/dev/full", marks=pytest.mark.patient),
        pytest.param(2, "2>&-", marks=pytest.mark.patient),
    ],
)
def test_a_warning_that_nobody_hears_costs_no_translation(
    trained, tmp_path: Path, processes: int, redirection: str
) -> None:
    update_model(trained.recipe, trained.workspace)
    command = trained.command("translate", "--set", f"inference.processes={processes}")
    heard = run_in_shell(command, "", tmp_path, text=TEXT)
    unheard = run_in_shell(command, redirection, tmp_path, text=TEXT)
    assert heard.stderr.startswith(b"warning: input line ")
    assert (heard.returncode, len(heard.stdout.splitlines())) == (0, 46)
    assert (unheard.returncode, unheard.stdout) == (0, heard.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "redirections", [pytest.param("<&- >&-", marks=pytest.mark.patient), "<&- >&- 2>&-"]
)
def test_run_in_several_processes(tiny_run, tmp_path: Path, redirections: str) -> None:
    run = tiny_run("training.max_steps=3")
    shutil.rmtree(run.workspace.data)
    done = run_in_shell(run.command("run", "--processes", "2"), redirections, tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    [scored] = json.loads(run.workspace.scores_file.read_text("utf-8"))["scores"][:1]
    assert (scored["test_set"], scored["num_sentences"]) == ("held-out", 10)


@pytest.mark.slow
def test_a_program_without_streams_translates_in_threads(trained, tmp_path: Path) -> None:
    update_model(trained.recipe, trained.workspace)
    model = str(trained.workspace.model)
    program = (
        "from pathlib import Path; from mtkit.pipeline.translate import load_models\n"
        f"model = load_models([Path({model!r})], ['inference.processes=2'])\n"
        "lines = list(model.translate(['The dog sleeps.'] * 40))\n"
        "Path('lines').write_text('\\n'.join(lines))\n"
    )
    done = run_in_shell([warm.python(), "-c", program], "<&- >&-", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "lines").read_text("utf-8").split("\n")) == 40


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", [["--help"], ["plan"]])
def test_a_full_disk_behind_stdout_is_an_error_line(tmp_path: Path, command: list[str]) -> None:
    shutil.copy(Path(__file__).parents[1] / "tiny.toml", tmp_path / "mtkit.toml")
    done = run_in_shell([*warm.command(), *command], ">/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: No space left on device\n")
