"""Sentences of one kind found among many of another, by language models of each, as a user does."""

import gzip
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.preparation.text_store import TextStore

from ..command import run_here

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set"),
]

LANGUAGE_MODEL = """\
name = "lm"
objective = "causal-lm"
[data]
language = "en"
block_tokens = 64
train = [{ text = "general.en", documents = "lines" }]
dev = { text = "dev.en", documents = "lines" }
[tokenizer]
vocab_size = 1000
[model]
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 4
positions = "learned"
max_positions = 64
activation = "gelu_tanh"
[training]
max_steps = 60
batch_tokens = 2000
length_groups = 1
micro_batch_tokens = 2000
label_smoothing = 0.0
checkpoint_every = 60
schedule = { kind = "cosine", peak = 1e-2, warmup_steps = 10 }
validation = { metric = "loss" }
averaging = { num_checkpoints = 1 }
"""
SELECTION = """\
name = "selected"
objective = "causal-lm"
[data]
language = "en"
block_tokens = 64
train = [{ text = "mixture.en", documents = "lines" }]
dev = { text = "dev.en", documents = "lines" }
[data.cleaning.selection]
in_domain = "ours/model"
general = "general/model"
keep = 0.1
[tokenizer]
vocab_size = 1000
[training]
validation = { metric = "loss" }
"""
NUM_PLANTED = 1_100
# The second part of a text store begins at 10,000.
NUM_LINES = 11_000


def run_mtkit(folder: Path, *arguments: str, code: int = 0) -> str:
    done = run_here(folder, *arguments)
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of 2,000 phrasebook sentences and of 2,000 captions, and a mixture of others."""
    folder = tmp_path_factory.mktemp("project")
    path = Path(os.environ["MTKIT_TEST_DATA"]) / "multi30k" / "train.en.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        captions = list(dict.fromkeys(stream.read().splitlines()))
    ours = list(dict.fromkeys(english for english, _ in generate_pairs("train", 12_000)))
    planted = ours[-NUM_PLANTED:]
    mixture = [*planted, *captions[3_000 : 3_000 + NUM_LINES - NUM_PLANTED]]
    random.Random(1).shuffle(mixture)
    texts = {
        "ours": ours[:2_000],
        "general": captions[:2_000],
        "dev": captions[2_000:2_200],
        "mixture": mixture,
        "planted": planted,
    }
    for name, lines in texts.items():
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (folder / "lm.toml").write_text(LANGUAGE_MODEL)
    (folder / "mtkit.toml").write_text(SELECTION)
    shared = "tokenizer.pretrained.source=general/model/joint.spm"
    for name, options in (
        ("general", ()),
        ("ours", ("--set", "data.train.0.text=ours.en", "--set", shared)),
    ):
        for command in ("prepare", "train"):
            run_mtkit(folder, command, "--recipe", "lm.toml", "--workspace", name, *options)
    return folder


def digests(workspace: Path) -> dict[str, str]:
    data = workspace / "data"
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and path.name != "stage.json" and path.stem != "report"
    }


@pytest.fixture(scope="module")
def one(project: Path) -> tuple[str, dict[str, str]]:
    """What a preparation by one process said, and the digests of what it left in `one`."""
    said = run_mtkit(project, "prepare", "--workspace", "one", "--workers", "1")
    return said, digests(project / "one")


def test_planted_sentences_are_found(project: Path, one: tuple[str, dict[str, str]]) -> None:
    said, expected = one
    assert "lines are selected: differences up to" in said
    data = project / "one" / "data"
    text = TextStore(data / "text", left_out=data / "selection" / "left_out.npy")
    kept = [line for part in text.iterate_unique() for line in part.column("text").to_pylist()]
    planted = set((project / "planted.en").read_text("utf-8").splitlines())
    report = json.loads((data / "report.json").read_text("utf-8"))
    assert report["selection"]["scored"] > 0.99 * NUM_LINES
    assert len(kept) == round(0.1 * report["selection"]["scored"])
    assert len(planted & set(kept)) > 0.9 * NUM_PLANTED
    assert report["selection"]["unit"] == "token"
    assert report["selection"]["samples"]["lowest"][0]["text"] in planted
    # From any number of workers the same bytes; a threshold at the same place keeps the same.
    run_mtkit(project, "prepare", "--workspace", "two", "--workers", "2")
    assert digests(project / "two") == expected
    limit = report["selection"]["limit"]
    options = ["--set", "~data.cleaning.selection.keep"]
    options += ["--set", f"data.cleaning.selection.max_difference={limit!r}"]
    run_mtkit(project, "prepare", "--workspace", "two", *options)
    found = json.loads((project / "two/data/report.json").read_text("utf-8"))["selection"]
    assert found["kept"] >= len(kept)
    said = run_mtkit(project, "prepare", "--workspace", "one")
    assert "up to date: nothing to do" in said


@pytest.mark.patient
def test_killed_while_it_measures_and_run_again(
    project: Path, one: tuple[str, dict[str, str]]
) -> None:
    command = [sys.executable, "-m", "mtkit", "prepare", "--workers", "1"]
    workspace = project / "killed"
    process = subprocess.Popen(
        [*command, "--workspace", "killed"],
        cwd=project,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    unfinished = workspace / ".data.draft" / "differences.part"
    # The first of two parts has 10,000 numbers.
    while process.poll() is None and not (
        unfinished.is_file() and unfinished.stat().st_size >= 40_000
    ):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (workspace / "data").exists()
    assert unfinished.stat().st_size == 16 + 40_000
    # What is there already stays as it was.
    said = run_mtkit(project, "prepare", "--workspace", "killed", "--workers", "1")
    assert "text: unchanged" in said
    assert digests(workspace) == one[1]


def test_a_check_ranks_and_writes_nothing(project: Path) -> None:
    said = run_mtkit(project, "prepare", "--check", "--workspace", "none")
    # Of each corpus a sample has 5,000 lines at most, and half as many at least.
    found = re.search(r"of ([\d,]+) lines of a sample are selected", said)
    assert found
    assert 2_000 < int(found[1].replace(",", "")) <= 10_000
    assert "lowest" in said
    assert "check passed" in said
    assert not (project / "none").exists()
    missing = ["--set", "data.cleaning.selection.general=nowhere/model"]
    said = run_mtkit(project, "prepare", "--check", "--workspace", "none", *missing, code=1)
    assert "nowhere/model: no such folder" in " ".join(said.split())
