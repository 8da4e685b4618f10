"""A server in this process, whose models upper-case what they get."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from mtkit.errors import MtkitError
from mtkit.evaluation.flags import Flag
from mtkit.inference.request import Request
from mtkit.inference.translation import Hypothesis, Translation
from mtkit.recipe.inference import Inference
from mtkit.serving.app import make_app, make_context
from mtkit.serving.fair_queue import LineRequest, LineResult, RenderedLine, RenderRequest
from mtkit.serving.keys import KeyRing
from mtkit.serving.model_service import ServedModel
from mtkit.serving.request_errors import LineFault
from mtkit.serving.served_languages import ServedLanguages
from mtkit.serving.settings import Serving
from mtkit.serving.text_main import CancelTask, ProcessLimits, TaskResult, run_task
from mtkit.serving.text_process import RunningTask, TextProcess
from mtkit.serving.worker_main import ModelLoaded, ModelSource
from mtkit.serving.worker_process import WorkerDiedError, WorkerProcess
from mtkit.text.languages import ModelLanguages

FLAG = Flag("numbers differ", 1, 0, "on one side only: <b>7</b>")


def request_of(ask: LineRequest) -> Request:
    return ask.request if isinstance(ask, RenderRequest) else ask


def _is_given(ask: LineRequest) -> bool:
    return isinstance(ask, RenderRequest) and ask.scores


_QUALITIES = {"SURE": 0.75, "UNSURE": 0.25}
"""By source text; other translations have none."""


class FakeWorker:
    """Answers at once, or when told; a line that says so is flagged, at fault, or kills it."""

    started: ClassVar[list["FakeWorker"]] = []
    fails_to_start = False
    loaded: ClassVar[ModelLoaded] = ModelLoaded()

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self.batches: list[list[LineRequest]] = []
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_held = False
        self._running: list[tuple[asyncio.Future[list[LineResult]], list[LineRequest]]] = []

    @classmethod
    async def start(cls, source: ModelSource) -> "FakeWorker":
        if cls.fails_to_start:
            raise MtkitError("damaged")
        cls.started.append(cls(source))
        return cls.started[-1]

    @property
    def num_running(self) -> int:
        return len(self._running)

    def work(self, asks: list[LineRequest]) -> "asyncio.Future[list[LineResult]]":
        loop = asyncio.get_running_loop()
        answers: asyncio.Future[list[LineResult]] = loop.create_future()
        if self.death.done():
            answers.set_exception(WorkerDiedError(self.death.result()))
            return answers
        self.batches.append(list(map(request_of, asks)))
        self._running.append((answers, list(asks)))
        if not self.is_held:
            loop.call_soon(self.release)
        return answers

    def release(self) -> None:
        running, self._running = self._running, []
        for answers, asks in running:
            if any("KILL" in request_of(ask).text for ask in asks if not _is_given(ask)):
                self.die()
                answers.set_exception(WorkerDiedError("was killed by SIGKILL"))
            elif not answers.done():
                answers.set_result(
                    [
                        RenderedLine.of(ask.request.text, found)
                        if isinstance(ask, RenderRequest) and isinstance(found, Translation)
                        else found
                        for ask, found in [(ask, self.answer(ask)) for ask in asks]
                    ]
                )

    def die(self) -> None:
        if not self.death.done():
            self.death.set_result("was killed by SIGKILL")

    def kill_running(self) -> None:
        running, self._running = self._running, []
        self.die()
        for answers, _ in running:
            answers.set_exception(WorkerDiedError("was killed by SIGKILL"))

    def answer(self, ask: LineRequest) -> LineResult:
        request = request_of(ask)
        if _is_given(ask):
            found = Hypothesis((5, 3), -1.5, -1.0, is_finished=True, text=request.prefix)
            return Translation((found,))
        if "FAULT" in request.text:
            return LineFault("the prefix is too long")
        n_best = request.settings.n_best if request.settings is not None else 1
        name = self.source.folder.name
        words = request.text.replace(":", " ").split()
        quality = next((_QUALITIES[word] for word in words if word in _QUALITIES), None)
        texts = [request.text.strip().upper() + "!" * rank for rank in range(n_best)]
        return Translation(
            tuple(
                Hypothesis((5, 3), -2.0 - rank, -1.0, is_finished=True, text=f"{name}:{text}")
                if text
                else Hypothesis((), 0.0, 0.0, is_finished=True)
                for rank, text in enumerate(texts)
            ),
            flags=(FLAG,) if "FLAG" in request.text else () if "CHECKED" in request.text else None,
            quality=quality,
            released=None if quality is None else quality > 0.5,
        )

    async def stop(self, seconds: float = 10.0) -> None:
        del seconds
        self.die()

    kill = stop

    def end(self) -> None:
        self.kill_running()

    def measure_bytes(self) -> int:
        return 1 << 30


class LocalTextProcess(TextProcess):
    """Runs tasks in threads of this process, without limits."""

    def __init__(self) -> None:
        self._running, self._answers = {}, {}
        self._loop = asyncio.get_running_loop()
        self.num_tasks, self.is_alive = 0, True

    @classmethod
    async def start(cls, limits: ProcessLimits) -> "LocalTextProcess":
        return cls()

    def send(self, message: Any) -> None:
        number, content = message
        if number in self._answers:
            self._answers[number].put(content)
        elif not isinstance(content, CancelTask):
            answers = self._answers[number] = SimpleQueue()

            def send(reply: Any) -> None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._take, number, reply)

            threading.Thread(target=run_task, args=(content, answers, send), daemon=True).start()

    def _take(self, number: int, reply: Any) -> None:
        running: RunningTask = self._running[number]
        if isinstance(reply, TaskResult):
            del self._running[number], self._answers[number]
        running.take(reply)

    @property
    def has_ended(self) -> bool:
        return not self.is_alive

    def measure_bytes(self) -> int:
        return 0

    def end(self) -> None:
        self.is_alive = False
        for answers in self._answers.values():
            answers.put(CancelTask())

    async def kill(self) -> None:
        self.end()


def make_model(
    folder: str,
    source: str = "en",
    target: str = "de",
    languages: ModelLanguages | None = None,
    *,
    has_alignments: bool = False,
) -> ServedModel:
    opened = ModelSource(Path(folder), Inference(), "cpu")
    served = ServedLanguages.of(languages, source, target)
    return ServedModel(folder, opened, served, has_alignments=has_alignments)


@pytest.fixture(autouse=True)
def local_texts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "text_processes" not in request.keywords:
        monkeypatch.setattr(TextProcess, "start", LocalTextProcess.start)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    """The class in place of processes; `started` lists those there were."""
    monkeypatch.setattr(FakeWorker, "started", [])
    monkeypatch.setattr(FakeWorker, "fails_to_start", False)
    monkeypatch.setattr(WorkerProcess, "start", FakeWorker.start)
    return FakeWorker


@pytest.fixture
def serve(workers: type[FakeWorker]) -> Iterator[Callable[..., TestClient]]:
    """A function that returns a client: `serve(make_model("m"), max_characters=10)`."""
    with ExitStack() as stack:

        def start(*models: ServedModel, keys: Path | None = None, **limits: Any) -> TestClient:
            settings = Serving(log="none", load="first-use", **limits)
            ring = KeyRing(keys) if keys is not None else None
            context = make_context(models or (make_model("m"),), settings, ring)
            client = TestClient(make_app(context), base_url="http://localhost")
            return stack.enter_context(client)

        yield start
