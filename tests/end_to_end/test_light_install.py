"""Commands of a light install: in processes without torch, datasets, pyarrow and matplotlib."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import torch

from mtkit.engine.library import choose_library
from mtkit.inference.translator import Translator
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.text.tokenizer import SubwordTokenizer

FOLDER = Path(__file__).with_name("light_install")
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH")))),
}
LINES = "The man sleeps.\n\nThe dog sleeps.\n"


pytestmark = pytest.mark.skipif(choose_library() is None, reason="installed without a compiler")


@dataclass(frozen=True)
class Light:
    """A run with a model, for commands of a light install."""

    model: Path
    options: list[str]

    def run(self, *arguments: str, text: str = "", code: int = 0) -> tuple[str, str]:
        """Returns stdout and stderr of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "mtkit", *arguments],
            input=text,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    def expect(self, lines: list[str]) -> list[str]:
        """Returns the translations of a full install."""
        return Translator(self.model, device="cpu", warns=False).translate(lines)

    def translate(self, *arguments: str, text: str = LINES) -> str:
        return self.run("translate", "--model", str(self.model), *arguments, text=text)[0]


@pytest.fixture
def light(tiny_run) -> Light:
    run = tiny_run()
    tokenizer = SubwordTokenizer.load(run.workspace.tokenizer)
    # With some weights the tokens of a term are never ended.
    torch.manual_seed(3)
    save_model_folder(
        run.workspace.model,
        recipe=run.recipe,
        weights=pack_weights(build(ModelConfig.of(run.recipe, tokenizer))),
        tokenizer=tokenizer,
        origin="chance",
    )
    return Light(run.workspace.model, run.options)


def test_lines_are_translated(light: Light) -> None:
    assert light.translate().split("\n")[:-1] == light.expect(LINES.splitlines())


def test_a_file_of_lines_is_translated(light: Light, tmp_path: Path) -> None:
    source, output = tmp_path / "corpus.en", tmp_path / "corpus.de"
    source.write_text(LINES)
    light.translate(str(source), "--input", "lines", "--output", str(output))
    assert output.read_text().split("\n")[:-1] == light.expect(LINES.splitlines())


def test_lines_have_all_extras(light: Light) -> None:
    extras = ["n_best=2", "alignments=true", "rerank={}"]
    settings = [*extras, "flags={}", "protect={}", "paragraphs={}"]
    options = [part for each in settings for part in ("--set", f"inference.{each}")]
    found = [json.loads(line) for line in light.translate("--json", *options).splitlines()]
    assert [len(each["n_best"]) for each in found] == [2, 1, 2]
    assert all({"alignment", "flags"} <= each.keys() for each in found)
    assert ["utility" in each for each in found] == [True, False, True]


def test_a_glossary_is_used(light: Light, tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("man\tKerl\n", "utf-8")
    arguments = ["translate", "--model", str(light.model), "--glossary", str(glossary)]
    out, told = light.run(*arguments, text=LINES)
    assert "Kerl" in out.splitlines()[0]
    assert "terms: 1 used" in told


def test_given_translations_are_scored(light: Light) -> None:
    out = light.translate("--score-only", text="A man.\tEin Mann.\nA dog.\tEin Hund.\n")
    assert [float(line.split("\t")[0]) < 0.0 for line in out.splitlines()] == [True, True]


@pytest.mark.parametrize(
    ("form", "content", "kept"),
    [
        ("html", "<p>The <b>man</b> sleeps.</p>\n", ("<p>", "<b>", "</b>", "</p>")),
        ("markdown", "# The man\n\n- sleeps *here*\n", ("# ", "\n- ")),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\nThe man.\n", ("00:00:01,000 --> 00:00:02,000",)),
        ("po", 'msgid ""\nmsgstr ""\n\nmsgid "The man"\nmsgstr ""\n', ('msgid "The man"',)),
        ("json", '{"title": "The man sleeps."}', ('"title"',)),
        ("yaml", "title: The man sleeps.\n", ("title:",)),
        ("text", "The man\nsleeps.\n\nHe sleeps.\n", ("\n\n",)),
    ],
)
def test_documents_are_translated(
    light: Light, form: str, content: str, kept: tuple[str, ...]
) -> None:
    out = light.translate("--input", form, text=content)
    assert [part for part in kept if part not in out] == []


def test_the_test_sets_of_a_run_are_scored(light: Light) -> None:
    out, _ = light.run("score", *light.options)
    assert "held-out" in out


def test_files_are_scored(light: Light, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Der Mann schläft heute hier.\n", "utf-8")
    arguments = ["score", "--hypothesis", str(text), "--reference", str(text), "--json"]
    rows = json.loads(light.run(*arguments)[0])
    assert {row["metric"]: row["value"] for row in rows}["chrF2"] == 100.0


@pytest.mark.parametrize("command", ["prepare", "train", "run", "average"])
def test_what_training_needs_is_named(light: Light, command: str) -> None:
    _, told = light.run(command, *light.options, code=1)
    error, hint = told.splitlines()[-2:]
    assert error.startswith("error: ")
    assert "needs the package " in error
    assert hint.startswith("hint: pip install ")


def test_a_gpu_needs_torch(light: Light) -> None:
    arguments = ["translate", "--model", str(light.model), "--device", "cuda"]
    _, told = light.run(*arguments, text=LINES, code=1)
    assert "needs the package torch, which isn't installed\nhint: pip install torch" in told


@pytest.fixture
def serve(light: Light, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A function that starts a server and returns its address."""
    log, started = tmp_path / "log", []

    def start() -> str:
        command = [sys.executable, "-m", "mtkit", "serve", "--model", str(light.model)]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*command, "--port", "0"], stdout=stream, stderr=stream, env=ENVIRONMENT
            )
        started.append(process)
        while " on http" not in (told := log.read_text("utf-8")):
            assert process.poll() is None, told
            time.sleep(0.05)
        return told.split(" on ")[1].split()[0].rstrip("/")

    yield start
    for process in started:
        process.terminate()
        process.wait()
    assert "Traceback" not in log.read_text("utf-8")


def test_requests_are_answered(light: Light, serve: Callable[[], str]) -> None:
    address = serve()
    body = {"q": ["The man sleeps.", "<p>A <b>dog</b>.</p>"], "source": "en", "target": "de"}
    answer = httpx2.post(f"{address}/translate", json={**body, "format": "html"}, timeout=60.0)
    assert answer.status_code == 200, answer.text
    plain, markup = answer.json()["translatedText"]
    assert [plain] == light.expect(["The man sleeps."])
    assert markup.startswith("<p>")
    detected = httpx2.post(f"{address}/detect", json={"q": "Guten Morgen"}, timeout=60.0)
    assert detected.status_code == 200
    form = {"source": "en", "target": "de"}
    file = {"file": ("page.html", b"<p>The man sleeps.</p>")}
    stored = httpx2.post(f"{address}/translate_file", data=form, files=file, timeout=60.0)
    assert stored.status_code == 200, stored.text
