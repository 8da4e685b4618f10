"""The command itself: a real process, a real model, real connections."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from mtkit import RemoteTranslator, Request, Translator
from mtkit.errors import MtkitError
from mtkit.inference.request import LineError
from mtkit.model.config import INFERENCE_FILE, read_settings, write_section
from mtkit.pipeline.serve import serve
from mtkit.recipe.inference import Rerank
from mtkit.recipe.paragraphs import Paragraphs

from ... import warm

LINES = ["The old man buys three red apples.", "", "A book."]


class Running:
    """A server in a process of its own."""

    def __init__(self, folder: Path, log: Path, *options: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "mtkit", "serve", "--model", str(folder), "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*command, *options], stdout=stream, stderr=stream, env=environment
            )
        self.wait_for("serving ")
        self.address = log.read_text("utf-8").split(" on ")[1].split()[0].rstrip("/")

    def wait_for(self, text: str) -> None:
        while text not in self.log.read_text("utf-8"):
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.05)

    def translate(self, text: str) -> str:
        body = {"q": text, "source": "en", "target": "de"}
        answer = httpx2.post(f"{self.address}/translate", json=body, timeout=60.0)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["translatedText"])


@pytest.fixture
def running(folder: Path, tmp_path: Path) -> Iterator[Running]:
    server = Running(folder, tmp_path / "log", "--set", "serve.header_seconds=1")
    yield server
    server.process.kill()
    server.process.wait()


@pytest.mark.slow
def assert_alike(found: Any, wanted: Any) -> None:
    """Checks that two answers are the same; another process may add numbers in another order."""
    assert type(found) is type(wanted)
    if isinstance(found, dict):
        assert found.keys() == wanted.keys()
        for key in found:
            assert_alike(found[key], wanted[key])
    elif isinstance(found, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_alike(one, other)
    elif isinstance(found, float):
        assert found == pytest.approx(wanted, rel=1e-5)
    else:
        assert found == wanted


def test_a_server_from_start_to_end(running: Running, folder: Path) -> None:
    here = Translator(folder, device="cpu")
    there = RemoteTranslator(running.address)
    # The same lines out as without a server.
    assert there.translate(LINES) == here.translate(LINES)
    settings = here.settings.model_copy(update={"n_best": 2})
    [found] = there.search([Request(LINES[0], settings=settings)])
    [wanted] = here.search([Request(LINES[0], settings=settings)])
    assert_alike(found.as_json(LINES[0]), wanted.as_json(LINES[0]))
    split = here.settings.model_copy(update={"paragraphs": Paragraphs()})
    paragraph = Request(f"{LINES[0]}  {LINES[0]}", settings=split)
    [found], [wanted] = there.search([paragraph]), here.search([paragraph])
    assert len(found.sentences) == 2
    assert_alike(found.as_json(paragraph.text), wanted.as_json(paragraph.text))
    assert running.translate(paragraph.text) == wanted.text
    pair = (LINES[0], "Ein Buch.")
    [found], [wanted] = there.score([pair]), here.score([pair])
    # Another process may add in another order.
    assert [token.piece for token in found.candidates[0].tokens] == [
        token.piece for token in wanted.candidates[0].tokens
    ]
    assert [token.log_probability for token in found.candidates[0].tokens] == pytest.approx(
        [token.log_probability for token in wanted.candidates[0].tokens], rel=1e-5
    )
    with pytest.raises(LineError, match=r"input line 8: .*prefix"):
        there.search([Request("a"), Request("b", prefix="x y " * 3_000)], first_line=7)

    # A process that is killed is said and replaced.
    [worker] = [
        child
        for child in psutil.Process(running.process.pid).children()
        if any("worker_main" in part for part in child.cmdline())
    ]
    worker.kill()
    assert running.translate(LINES[0]) == here.translate(LINES[0])
    assert "was killed by SIGKILL" in running.log.read_text("utf-8")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("loaded again")
    assert running.translate(LINES[0]) == here.translate(LINES[0])

    # A connection that says nothing is closed.
    port = int(running.address.rsplit(":", 1)[1])
    silent = socket.create_connection(("127.0.0.1", port), timeout=30)
    with silent, suppress(ConnectionResetError):
        assert silent.recv(1) == b""
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    assert LINES[0] not in running.log.read_text("utf-8")
    with pytest.raises(MtkitError, match="refused"):
        there.translate("a")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [*warm.command(), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_is_refused_before_anything_is_served(folder: Path, tmp_path: Path) -> None:
    model = ["serve", "--model", str(folder)]
    found = run(*model, "--host", "0.0.0.0")
    assert (found.returncode, found.stdout) == (1, "")
    assert "there are no keys" in found.stderr
    assert "Traceback" not in found.stderr
    for options, said in (
        ({"overrides": ["serve.max_charcters=1"]}, "did you mean"),
        ({"keys": tmp_path / "none"}, "no such API key file"),
        ({"folders": [tmp_path]}, "no model here"),
    ):
        with pytest.raises(MtkitError) as refused:
            serve(**{"folders": [folder], **options})
        assert said in f"{refused.value.message} {refused.value.hint}"
    keys = tmp_path / "keys.toml"
    made = run("serve", "--keys", str(keys), "--new-key", "cms")
    assert made.returncode == 0
    assert made.stdout.strip() not in keys.read_text("utf-8")
    assert keys.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_server_reranks_as_its_model_says(folder: Path, tmp_path: Path) -> None:
    settings = read_settings(folder)
    reranked = settings.model_copy(update={"beam_size": 5, "rerank": Rerank()})
    write_section(folder / INFERENCE_FILE, reranked)
    server = Running(folder, tmp_path / "log")
    try:
        body = {"lines": LINES[:1], "settings": {"n_best": 2}}
        answer = httpx2.post(f"{server.address}/v1/translate", json=body, timeout=60.0).json()
        wanted = reranked.model_copy(update={"n_best": 2})
        request = Request(LINES[0], settings=wanted)
        [here] = Translator(folder, device="cpu").search([request])
        there = answer["translations"][0]["n_best"]
        assert [each["text"] for each in there] == [each.text for each in here.candidates]
        assert [each["utility"] for each in there] == [each.utility for each in here.candidates]
        assert there[0]["utility"] >= there[1]["utility"]
    finally:
        server.process.kill()
        server.process.wait()
