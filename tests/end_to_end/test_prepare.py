"""`mtkit prepare` as a user runs it: the same bytes whatever happens, and what is said."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mtkit import remote_files
from mtkit.data import check
from mtkit.data.phrasebook import generate_pairs

from .. import warm
from ..command import run_here
from ..file_server import serve_files

RECIPE = """\
name = "test"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[[data.train]]
name = "again"
source = "again.en"
target = "again.de"
tag = "<BT>"
weight = 0.5
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = 600
"""
NUM_PAIRS = 21_000
"""Three blocks, so that worker processes have something to do."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"), NUM_PAIRS)


def make_project(folder: Path, num_pairs: int) -> Path:
    """Returns a folder with a recipe and two corpora."""
    (folder / "mtkit.toml").write_text(RECIPE)
    # All of one split, since a held-out pair takes twenty times as long to make.
    every_pair = list(generate_pairs("train", num_pairs + 900))
    pairs, others = every_pair[:num_pairs], every_pair[num_pairs:]
    # A thousand duplicates within the first corpus, and five hundred of it in the second.
    write(folder, "train", [*pairs, *pairs[:1000]])
    write(folder, "again", [*pairs[-500:], *others[:700]])
    write(folder, "dev", others[700:])
    write(folder, "blank", [(" ", "")] * 3)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is prepared in a second, in its folder `run`."""
    folder = make_project(tmp_path_factory.mktemp("small"), 1_200)
    prepare_here(folder, folder / "run")
    return folder


def write(folder: Path, split: str, pairs: list[tuple[str, str]]) -> None:
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))


def prepare(
    project: Path, workspace: Path, *options: str, is_cold: bool = False, **settings
) -> subprocess.Popen:
    """Starts a preparation; a cold one is a process of this one, with its workers in its group."""
    command = [sys.executable, "-m", "mtkit"] if is_cold else warm.command()
    return subprocess.Popen(
        [*command, "prepare", "--workspace", str(workspace), *options],
        cwd=project,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **settings,
    )


def wait_for_draft(process: subprocess.Popen, workspace: Path) -> None:
    """Waits until a preparation has begun, or has ended."""
    while process.poll() is None and not (workspace / ".data.draft").exists():
        time.sleep(0.01)


def prepare_here(project: Path, workspace: Path, *options: str, code: int = 0) -> str:
    """As `finish(prepare(...))`, in this process: most tests aren't about the start of one."""
    done = run_here(project, "prepare", "--workspace", str(workspace), *options)
    assert done.returncode == code, done.stderr
    return done.stderr


def finish(process: subprocess.Popen, code: int = 0) -> str:
    said = process.communicate(timeout=240)[1]
    assert process.returncode == code, said
    return said


def digests(workspace: Path) -> dict[str, str]:
    """What must be the same: all that training reads."""
    data = workspace / "data"
    files = [path for path in data.rglob("*") if path.is_file() and path.name != "stage.json"]
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.stem != "report"
    }


@pytest.fixture(scope="module")
def undisturbed(project: Path) -> tuple[dict[str, str], float]:
    """Digests of a preparation by one process, and the seconds that three workers take."""
    prepare_here(project, project / "one", "--workers", "1")
    started_at = time.monotonic()
    finish(prepare(project, project / "three", "--workers", "3"))
    return digests(project / "one"), time.monotonic() - started_at


def test_the_same_bytes_from_any_number_of_workers(
    project: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    # Two are compared where they are killed.
    expected, _ = undisturbed
    assert digests(project / "three") == expected
    assert {"train/tokens.arrow", "train/order.npy", "tokenizer/joint.spm"} <= expected.keys()


@pytest.mark.slow
@pytest.mark.parametrize("num_kills", [1, pytest.param(10, marks=pytest.mark.patient)])
def test_killed_at_some_moments_and_run_again(
    project: Path, undisturbed: tuple[dict[str, str], float], num_kills: int
) -> None:
    expected, elapsed_seconds = undisturbed
    num_killed = 0
    for moment in range(num_kills):
        workspace = project / f"killed-{moment}"
        process = prepare(project, workspace, "--workers", "2", is_cold=True)
        wait_for_draft(process, workspace)
        time.sleep(elapsed_seconds * (moment + 0.5) / num_kills)
        # A kill of the whole group, as when a machine goes down.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            num_killed += 1
        process.communicate()
        if (workspace / "data").exists():
            # It was done already: what stands under that name is whole.
            assert digests(workspace) == expected
        finish(prepare(project, workspace, "--workers", "2"))
        assert digests(workspace) == expected
        assert not (workspace / ".data.draft").exists()
    assert num_killed >= num_kills // 2


def test_a_second_time_nothing_is_done(
    project: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    times = {path: path.stat().st_mtime_ns for path in (project / "one").rglob("*")}
    said = prepare_here(project, project / "one")
    assert "up to date: nothing to do" in said
    assert times == {path: path.stat().st_mtime_ns for path in (project / "one").rglob("*")}


@pytest.mark.parametrize(
    ("override", "kept"),
    [
        ("data.cleaning.max_tokens=40", {"text", "tokenizer"}),
        ("tokenizer.vocab_size=500", {"text"}),
        # The tokenizer's sample is all there is, so that another draw makes the same one.
        ("seed=2", {"text", "train", "dev"}),
        ("data.train.1.tag=<XX>", {"text"}),
        ("data.train.1.weight=2.0", {"text", "tokenizer", "train", "dev"}),
        ("data.train.1.name=other", {"text", "tokenizer", "train", "dev"}),
        ("data.cleaning.numbers.enabled=false", {"tokenizer", "train", "dev"}),
        ("data.train.0.max_pairs=500", set()),
    ],
)
def test_only_what_depends_on_a_change_is_done_again(
    small: Path, tmp_path: Path, override: str, kept: set[str]
) -> None:
    workspace = tmp_path / "run"
    shutil.copytree(small / "run", workspace)
    before = digests(workspace)
    said = prepare_here(small, workspace, "--set", override)
    for name in ("text", "tokenizer", "train", "dev"):
        assert (f"{name}: unchanged, reused" in said) == (name in kept), said
    after = digests(workspace)
    taken_over = [path for path in before if path.split("/")[0] in kept]
    assert [after[path] for path in taken_over] == [before[path] for path in taken_over]
    # Back again: what is made anew is what it was.
    prepare_here(small, workspace)
    assert digests(workspace) == before


def test_the_report_adds_up(project: Path, undisturbed: tuple[dict[str, str], float]) -> None:
    report = json.loads((project / "one" / "data" / "report.json").read_text())
    train, again = report["corpora"]
    for corpus in (train, again):
        assert corpus["read"] == corpus["kept"] + sum(corpus["dropped"].values())
    assert (train["read"], train["dropped"]["duplicates"]) == (NUM_PAIRS + 1_000, 1_000)
    assert (again["read"], again["name"], again["weight"]) == (1_200, "again", 0.5)
    assert again["dropped"]["duplicates"] >= 500
    assert report["epoch"]["pairs"] == pytest.approx(train["kept"] + 0.5 * again["kept"], abs=200)
    page = (project / "one" / "data" / "report.html").read_text()
    assert "dropped by duplicates" in page
    assert "<svg" in page


def test_check_says_the_same_and_writes_nothing(
    project: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    said = prepare_here(project, project / "checked", "--check")
    assert not (project / "checked").exists()
    report = json.loads((project / "one" / "data" / "report.json").read_text())
    for corpus in report["corpora"]:
        assert f"{corpus['kept'] + corpus['dropped']['max_tokens']:,}" in said
    assert "check passed" in said
    assert "longest pairs" in said


def test_check_lists_every_fault(project: Path, tmp_path: Path) -> None:
    short = (project / "train.de").read_text().split("\n")[:300]
    (tmp_path / "short.de").write_text("\n".join(short) + "\n")
    (tmp_path / "latin.en").write_bytes((project / "again.en").read_bytes() + b"caf\xe9\n" * 3)
    (tmp_path / "latin.de").write_bytes((project / "again.de").read_bytes() + b"Kaffee\n" * 3)
    options = []
    for override in (
        f"data.train.0.target={tmp_path / 'short.de'}",
        f"data.train.1.source={tmp_path / 'latin.en'}",
        f"data.train.1.target={tmp_path / 'latin.de'}",
        "data.dev.source=absent.en",
    ):
        options += ["--set", override]
    said = prepare_here(project, tmp_path / "run", "--check", *options, code=1)
    assert "short.de has 300" in said
    num_pairs = (project / "again.en").read_text().count("\n") + 3
    assert f"; in all 3 of {num_pairs:,} pairs of again" in said
    assert "absent.en: no such file" in said
    assert said.count("error:") == 3


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("tokenizer.vocab_size=30000", "tokenizer.vocab_size = 30,000 is too large for this text"),
        ("data.dev={source='blank.en', target='blank.en'}", "data.dev: no pairs left"),
        ("data.train=[{source='train.en', target='train.en'}]", "no pairs left of 2,200"),
        ("tokenizer.pretrained.source=absent.model", "absent.model: no such file"),
    ],
)
def test_check_and_prepare_find_the_same_fault(
    small: Path, tmp_path: Path, override: str, fault: str
) -> None:
    for options in (["--check"], []):
        said = prepare_here(small, tmp_path / "run", *options, "--set", override, code=1)
        assert fault in said


def test_a_full_disk_is_told_and_costs_nothing_that_is_done(small: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "run"

    def forbid_large_files() -> None:
        # A file that grows past this fails as one on a full disk does, but with another number.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    limited = prepare(small, workspace, is_cold=True, preexec_fn=forbid_large_files)
    said = finish(limited, code=1)
    assert "error:" in said
    assert "Traceback" not in said
    assert not (workspace / "data").exists()
    prepare_here(small, workspace)
    assert digests(workspace) == digests(small / "run")


@pytest.mark.patient
def test_two_at_once_in_one_workspace(project: Path, tmp_path: Path) -> None:
    first = prepare(project, tmp_path / "run", "--workers", "2")
    wait_for_draft(first, tmp_path / "run")
    said = finish(prepare(project, tmp_path / "run"), code=1)
    assert "`mtkit prepare` can't start: another mtkit command is running here" in said
    finish(first)


def test_ctrl_c_ends_it_with_its_workers(project: Path, tmp_path: Path) -> None:
    process = prepare(project, tmp_path / "run", "--workers", "2")
    wait_for_draft(process, tmp_path / "run")
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert said.endswith("interrupted; the same command resumes where it stopped\n")
    assert "Traceback" not in said
    assert not (tmp_path / "run" / "data").exists()


def test_corpora_behind_an_address_make_the_same_data(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_files(small) as (address, faults):
        # Each connection ends early.
        monkeypatch.setattr(remote_files, "PAUSES", (0.0, 0.0, 0.0))
        faults.max_bytes = 9_000
        options = []
        for side, language in (("source", "en"), ("target", "de")):
            options += ["--set", f"data.train.0.{side}={address}/train.{language}"]
        prepare_here(small, tmp_path / "run", *options)
        assert "nothing to do" in prepare_here(small, tmp_path / "run", *options)
        wanted, found = digests(small / "run"), digests(tmp_path / "run")
        assert len(wanted) > 10
        # The recipe isn't the same, which its fingerprint tells.
        assert {name for name in wanted if wanted[name] != found[name]} == {"prepared.json"}
        write(small, "train", [("new", "neu"), *generate_pairs("train", 1_000)])
        said = prepare_here(small, tmp_path / "run", *options)
        assert "text: unchanged" not in said
        (small / "train.de").unlink()
        said = prepare_here(small, tmp_path / "run", *options, code=1)
        assert f"{address}/train.de: 404 Not Found" in said


def test_a_check_cleans_a_sample_and_reads_everything(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = list(generate_pairs("train", 3_000)) * 50
    for side, language in enumerate(("en", "de")):
        lines = (f"{pair[side]} {number}\n" for number, pair in enumerate(pairs))
        (tmp_path / f"many.{language}").write_text("".join(lines))
    options = ["--check"]
    for override in (
        f"data.train=[{{source='{tmp_path}/many.en', target='{tmp_path}/many.de'}}]",
        "data.cleaning.duplicates.enabled=false",
    ):
        options += ["--set", override]
    said = prepare_here(project, tmp_path / "run", *options)
    assert "many: checked 38,000 evenly spread pairs of 150,000" in said
    # As many as there are, up to the few that the filters drop.
    [num_pairs] = re.findall(r"one epoch: [\d,]+ updates, ([\d,]+) pairs", said)
    assert int(num_pairs.replace(",", "")) == pytest.approx(150_000, rel=0.01)
    # A fault in a row that isn't cleaned is found; fewer are cleaned, which takes the time.
    monkeypatch.setattr(check, "_MAX_BLOCKS", 4)
    with (tmp_path / "many.en").open("r+b") as stream:
        stream.seek(-200_000, os.SEEK_END)
        stream.write(b"\xff")
    said = prepare_here(project, tmp_path / "run", *options, code=1)
    assert "; in all 1 of 150,000 pairs of many" in said
