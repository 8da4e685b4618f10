"""Corpora that a translator completes, as a user runs them: one command, any kill, same bytes."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from mtkit.data.phrasebook import generate_pairs

from ..command import run_here
from ..llm_stub import Fault, serve_llm, translate
from .llm_jobs import Job, make_lines

RECIPE = """\
name = "test"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
name = "real"
source = "train.en"
target = "train.de"
[[data.train]]
name = "back"
target = "text.de"
translated_by = "reverse"
synthesis = { beam_size = 1 }
tag = "<BT>"
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = 300
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
[training]
max_steps = 6
batch_tokens = 600
length_groups = 1
checkpoint_every = 3
processes = 1
precision = "fp32"
[inference]
max_extra_tokens = 2
[[evaluation.test_sets]]
name = "held-out"
source = "test.en"
target = "test.de"
"""
NUM_LINES = 4_000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with 300 pairs and 4,000 lines of German, run once."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "mtkit.toml").write_text(RECIPE)
    pairs = list(generate_pairs("train", NUM_LINES + 340))
    for name, first, last in (
        ("train", 0, 300),
        ("dev", 300, 320),
        ("test", 320, 340),
        ("text", 340, None),
    ):
        for language, lines in zip(("en", "de"), zip(*pairs[first:last], strict=True), strict=True):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    done = run_here(folder, "run")
    assert done.returncode == 0, done.stderr
    (folder / "said.txt").write_text(done.stderr)
    return folder


def digests(workspace: Path) -> dict[str, str]:
    """What must be the same: all that training reads, and the translations."""
    files = [path for path in (workspace / "data").rglob("*") if path.is_file()]
    return {
        str(path.relative_to(workspace)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.stem not in ("report", "stage")
    }


def read(path: Path) -> list[str]:
    with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as stream:
        return stream.read().decode().split("\n")[:-1]


def test_one_command_trains_the_translator_first(project: Path) -> None:
    said = (project / "said.txt").read_text()
    assert "translated_by: training test-reverse in" in said
    assert said.index("training test-reverse in") < said.index("preparing test in")
    assert re.search(r"\ntime: (?:.*, )?all \d", said)
    workspace, reverse = project / "runs" / "test", project / "runs" / "test-reverse"
    scores = json.loads((workspace / "scores.json").read_text())["scores"]
    assert {each["metric"] for each in scores} == {"BLEU", "chrF2", "TER"}
    assert not (reverse / "scores.json").exists()
    config = json.loads((reverse / "model" / "config.json").read_text())
    assert (config["source_language"], config["target_language"]) == ("de", "en")
    [teacher] = json.loads((workspace / "manifest.json").read_text())["prepare"][
        "teachers"
    ].values()
    assert teacher["names"] == ["reverse"]
    assert "- translated text: back by `reverse`" in (workspace / "model/README.md").read_text()


def test_a_second_time_nothing_is_done(project: Path) -> None:
    done = run_here(project, "run")
    assert done.returncode == 0, done.stderr
    assert "keeps its translations" in done.stderr
    assert "prepare: up to date" in done.stderr
    assert "train: already finished" in done.stderr


def test_a_longer_training_keeps_its_translations(project: Path, tmp_path: Path) -> None:
    for name in ("test", "test-reverse"):
        shutil.copytree(project / "runs" / name, tmp_path / name)
    options = ("--workspace", str(tmp_path / "test"), "--set", "training.max_steps=9")
    before = digests(tmp_path / "test")
    # The translator may also be gone.
    for _ in range(2):
        done = run_here(project, "run", *options)
        assert done.returncode == 0, done.stderr
        assert "keeps its translations" in done.stderr
        assert digests(tmp_path / "test") == before
        shutil.rmtree(tmp_path / "test-reverse", ignore_errors=True)
    assert list((tmp_path / "test" / "checkpoints").glob("step-*09"))


def test_a_model_of_another_recipe_translates_nothing(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "runs" / "test-reverse", tmp_path / "x-reverse")
    changed = ["--set", "model.d_model=32", "--workspace", str(tmp_path / "x")]
    for command in ("prepare", "run"):
        done = run_here(project, command, *changed)
        assert "x-reverse/checkpoints contains checkpoints of another run" in done.stderr
        assert done.returncode == 1
    assert not (tmp_path / "x").exists()


def test_a_decoder_only_translator_translates_a_corpus(project: Path, tmp_path: Path) -> None:
    for path in project.glob("*.[de][en]"):
        lines = path.read_text().splitlines(keepends=True)
        (tmp_path / path.name).write_text("".join(lines[:300]))
    recipe = RECIPE.replace("num_encoder_layers = 1", 'architecture = "decoder-only"')
    (tmp_path / "mtkit.toml").write_text(recipe)
    done = run_here(tmp_path, "run")
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "runs/test/data/synthetic/stage.json").read_text())["facts"]
    assert facts["corpora"]["1"]["read"] == 300


def test_the_translations_are_those_of_translate(project: Path) -> None:
    """What a corpus gets is what `mtkit translate` prints, line by line."""
    lines = (project / "text.de").read_text().splitlines()[:50]
    done = run_here(
        project,
        "translate",
        "--model",
        "runs/test-reverse/model",
        "--set",
        "inference.beam_size=1",
        text="".join(f"{line}\n" for line in lines),
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads((project / "runs/test/data/synthetic/stage.json").read_text())["facts"]
    assert facts["corpora"]["1"]["read"] == NUM_LINES
    data = project / "runs" / "test" / "data" / "synthetic"
    found = dict(zip(read(data / "1.target.zst"), read(data / "1.source.zst"), strict=True))
    expected = dict(zip(lines, done.stdout.splitlines(), strict=True))
    assert {line: found.get(line, "") for line in lines} == expected


@pytest.mark.slow
@pytest.mark.parametrize("num_kills", [1, pytest.param(10, marks=pytest.mark.patient)])
def test_killed_at_some_moments_and_run_again(project: Path, num_kills: int) -> None:
    reverse = project / "runs" / "test-reverse" / "model"
    options = ["--set", f"data.train.1.translated_by={reverse}", "--workers", "2"]
    whole, killed = project / f"whole-{num_kills}", project / f"killed-{num_kills}"
    started_at = time.monotonic()
    assert run_here(project, "prepare", *options, "--workspace", str(whole)).returncode == 0
    elapsed_seconds = time.monotonic() - started_at
    num_killed = 0
    for moment in range(num_kills):
        process = subprocess.Popen(
            [sys.executable, "-m", "mtkit", "prepare", *options, "--workspace", str(killed)],
            cwd=project,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr is not None
        # From when it has begun to work.
        assert "preparing test" in process.stderr.readline()
        time.sleep(elapsed_seconds * (moment + 0.5) / num_kills)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            num_killed += 1
        process.communicate()
        if (killed / "data").exists():
            # It was done already.
            assert digests(killed) == digests(whole)
            shutil.rmtree(killed)
    assert run_here(project, "prepare", *options, "--workspace", str(killed)).returncode == 0
    assert digests(killed) == digests(whole)
    assert num_killed >= (num_kills + 1) // 2
    assert not (killed / ".data.draft").exists()


def test_a_student_of_it_is_one_command_away(project: Path, tmp_path: Path) -> None:
    done = run_here(tmp_path, "init", "--student-of", str(project / "runs" / "test"))
    assert done.returncode == 0, done.stderr
    done = run_here(tmp_path, "run", "--set", "training.max_steps=3")
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "runs" / "test-student" / "model" / "README.md").read_text()
    assert "- translated text: real by `" in card
    config = json.loads((tmp_path / "runs" / "test-student" / "model" / "config.json").read_text())
    assert config["model"]["num_decoder_layers"] == 1


def test_a_student_of_nothing_is_refused(tmp_path: Path) -> None:
    done = run_here(tmp_path, "init", "--student-of", "runs/x")
    assert done.returncode == 1
    assert "runs/x: not the workspace of a finished run" in done.stderr
    done = run_here(tmp_path, "init", "phrasebook-en-de", "--student-of", "runs/x")
    assert done.returncode == 2


def test_a_large_language_model_is_asked_once_for_each_line(project: Path, tmp_path: Path) -> None:
    lines = make_lines(60)
    for name in ("train", "dev", "test"):
        for language in ("en", "de"):
            os.link(project / f"{name}.{language}", tmp_path / f"{name}.{language}")
    (tmp_path / "text.en").write_text("".join(f"{line}\n" for line in lines))
    recipe = RECIPE.replace('target = "text.de"', 'source = "text.en"')
    recipe = recipe.replace('translated_by = "reverse"', 'translated_by = "llm.toml"')
    recipe = recipe.replace("synthesis = { beam_size = 1 }\n", "")
    (tmp_path / "mtkit.toml").write_text(recipe)
    typed = ["--set", "data.train.1.translated_by=llm.toml"]
    with serve_llm(Fault("missing-line", 0.2), Fault("busy", 0.2)) as stub:
        Job(tmp_path).write(stub.address, lines_per_request=4, licence="Llama 3.1")
        refused = run_here(tmp_path, "prepare")
        assert refused.returncode == 1
        assert "which only the recipe names" in refused.stderr
        assert not stub.asked
        done = run_here(tmp_path, "prepare", *typed)
        assert done.returncode == 0, done.stderr
        num_asked = stub.num_asked
        again = run_here(tmp_path, "prepare", *typed, "--workspace", "runs/again")
        assert again.returncode == 0, again.stderr
        assert stub.num_asked == num_asked
        whole = run_here(tmp_path, "run", *typed, "--set", "training.max_steps=3")
        assert whole.returncode == 0, whole.stderr
        assert stub.num_asked == num_asked
    assert re.search(r"back: .*[0-9]+ requests", done.stderr), done.stderr
    data = tmp_path / "runs" / "test" / "data" / "synthetic"
    assert read(data / "1.source.zst") == lines
    assert read(data / "1.target.zst") == list(map(translate, lines))
    manifest = json.loads((tmp_path / "runs" / "test" / "manifest.json").read_text())
    teacher = manifest["prepare"]["teachers"]["back"]
    assert (teacher["names"], teacher["licences"]) == (["llm.toml"], {"llm.toml": "Llama 3.1"})


def test_a_missing_file_is_told_before_a_translator_is_trained(
    project: Path, tmp_path: Path
) -> None:
    for name in ("train", "dev", "test"):
        for language in ("en", "de"):
            os.link(project / f"{name}.{language}", tmp_path / f"{name}.{language}")
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    done = run_here(tmp_path, "run")
    assert done.returncode == 1
    assert "text.de: no such file" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_what_can_be_known_is_told_before_a_translator_is_trained(
    project: Path, tmp_path: Path
) -> None:
    for path in project.glob("*.[de][en]"):
        os.link(path, tmp_path / path.name)
    pairs = RECIPE.replace('[[data.train]]\nname = "back"', "[[back]]")
    alone = pairs[: pairs.index("[[back]]")] + pairs[pairs.index("[data.dev]") :]
    (tmp_path / "mtkit.toml").write_text(alone)
    assert run_here(tmp_path, "run").returncode == 0
    # The recipe got a corpus, and kept its name.
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    done = run_here(tmp_path, "run")
    assert "contains checkpoints of another run: data.train had 1 section, now 2" in done.stderr
    # A translator's recipe that has the test set in its training text.
    leaky = alone.replace('name = "test"', 'name = "leaky"').replace("train.en", "test.de")
    leaky = leaky.replace("train.de", "test.en").replace('e = "de"', 'e = "?"')
    leaky = leaky.replace('e = "en"', 'e = "de"').replace('e = "?"', 'e = "en"')
    leaky = leaky[: leaky.index("[[evaluation")] + "[data.cleaning.overlap]\nenabled = false\n"
    (tmp_path / "leaky.toml").write_text(leaky.replace("vocab_size = 300", "vocab_size = 60"))
    text = RECIPE.replace('name = "test"', 'name = "x"').replace('"reverse"', '"leaky.toml"')
    (tmp_path / "mtkit.toml").write_text(text)
    done = run_here(tmp_path, "run")
    assert "leaky learns from the test set held-out: its manifest lists the file" in done.stderr
    assert not list((tmp_path / "runs").glob("*-reverse"))
    assert not (tmp_path / "runs" / "leaky" / "checkpoints").exists()
