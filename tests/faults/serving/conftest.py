"""A server under attack: a process of its own, whose event loop is watched."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from mtkit.serving.keys import add_key

from ...command import run_here

MEASURED = Path(__file__).with_name("measured")
TINY = Path(__file__).parents[2] / "tiny.toml"


class Target:
    """A server, and a caller of it who has a key.

    Args:
        folder: The model folder.
        root: Where its log and keys are.
        settings: `serve.KEY=VALUE`.
    """

    def __init__(self, folder: Path, root: Path, *settings: str) -> None:
        self._log, self._callbacks = root / "log", root / "callbacks"
        self._callbacks.touch()
        self.key = add_key(root / "keys.toml", "caller")
        self.attackers_key = add_key(root / "keys.toml", "attacker")
        options = [part for each in settings for part in ("--set", each)]
        path = os.pathsep.join([str(MEASURED), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MTKIT_CALLBACKS": str(self._callbacks),
            "PYTHONPATH": path,
        }
        command = [sys.executable, "-m", "mtkit", "serve", "--model", str(folder), "--port", "0"]
        with self._log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*command, "--keys", str(root / "keys.toml"), *options],
                stdout=stream,
                stderr=stream,
                env=environment,
            )
        self.wait_for("serving ")
        self.port = int(self.log.split(" on ")[1].split()[0].rstrip("/").rsplit(":", 1)[1])
        self.client = httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=120.0,
        )

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text("utf-8")

    def wait_for(self, text: str) -> None:
        """Waits until it has printed something."""
        while text not in self.log:
            assert self.process.poll() is None, self.log
            time.sleep(0.05)

    def list_callbacks(self, since: float) -> list[tuple[float, str]]:
        """Returns the event loop's long callbacks since a time: seconds, and what they were."""
        noted = [line.split(" ", 2) for line in self._callbacks.read_text("utf-8").splitlines()]
        return [(float(seconds), what) for at, seconds, what in noted if float(at) >= since]

    def count_bytes(self) -> int:
        """Returns the memory of its own process."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def ask(self) -> list[Any]:
        """Returns its answers to what ordinary callers ask."""
        pair = {"source": "en", "target": "de"}
        texts = [
            {"q": "The old man buys three red apples.", **pair},
            {"q": "A book. The man sleeps.\nThe dog sees a cat.", **pair},
            {"q": "The old man buys three red apples.", "source": "auto", "target": "de"},
            {"q": "<p>A <b>red</b> book.</p>", "format": "html", **pair},
        ]
        answers = [self.client.post("/translate", json=body) for body in texts]
        answers.append(self.client.post("/v1/translate", json={"lines": ["A book."]}))
        file = {"file": ("a.html", b"<p>The man sleeps.</p>")}
        answers.append(self.client.post("/translate_file", files=file, data=pair))
        assert [answer.status_code for answer in answers] == [200] * len(answers), [
            answer.text for answer in answers
        ]
        found = [answer.json() for answer in answers]
        address = found[-1].pop("translatedFileUrl")
        found.append(self.client.get(address).text)
        return found

    def end(self) -> None:
        """Ends it by SIGTERM, which it must answer."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(90) == 0


class Repeating:
    """Calls a function again and again, in a thread, until it is stopped."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.results: list[Any] = []
        self.seconds: list[float] = []
        self._call, self._is_over = call, threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set() or not self.results:
                started_at = time.monotonic()
                self.results.append(self._call())
                self.seconds.append(time.monotonic() - started_at)
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            self._fault = error

    def __enter__(self) -> "Repeating":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._fault is not None:
            raise self._fault


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that was trained for a second."""
    workspace = tmp_path_factory.mktemp("attacked") / "run"
    done = run_here(TINY.parent, "run", "--recipe", str(TINY), "--workspace", str(workspace))
    assert done.returncode == 0, done.stderr
    return workspace / "model"


@pytest.fixture(scope="module")
def target(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server that all attacks of a module meet."""
    server = Target(
        model, tmp_path_factory.mktemp("target"), "serve.batch_seconds=20", "serve.log=none"
    )
    try:
        yield server
        server.end()
    finally:
        server.process.kill()
        server.process.wait()
