"""The parent's side of a model in its own process."""

import asyncio
import itertools
from collections.abc import Sequence

from mtkit.child_processes import describe_end
from mtkit.errors import MtkitError
from mtkit.serving.fair_queue import LineRequest, LineResult
from mtkit.serving.messages import ChildProcess, start_process
from mtkit.serving.worker_main import ModelLoaded, ModelSource

_STOP_SECONDS = 10.0
_MODULE = "mtkit.serving.worker_main"


class WorkerDiedError(Exception):
    """The process ended, or was killed; the message says how."""


class WorkerProcess(ChildProcess):
    """A child process with a model, made by `start`; all its methods belong to one event loop.

    Attributes:
        loaded: Its capacity.
        death: Future description of how it ended.
    """

    loaded = ModelLoaded()

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self._numbers = itertools.count()
        self._running: dict[int, asyncio.Future[list[LineResult]]] = {}
        self._found: dict[int, list[LineResult]] = {}
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, source: ModelSource) -> "WorkerProcess":
        """Returns a process that has loaded its model, or raises an MtkitError."""
        process = await start_process(_MODULE, knows_secrets=True)
        worker = cls(process)
        try:
            worker.send(source)
            loaded = await worker.receive()
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            how = describe_end(await process.wait())
            raise MtkitError(
                f"{source.folder}: the process that loads the model {how}",
                "is there enough memory?",
            ) from error
        except BaseException:
            await worker.kill()
            raise
        if not isinstance(loaded, ModelLoaded):
            await process.wait()
            raise loaded
        worker.loaded = loaded
        worker._reading = asyncio.create_task(worker._read_answers())
        return worker

    @property
    def num_running(self) -> int:
        """Running batches."""
        return len(self._running)

    def work(self, requests: Sequence[LineRequest]) -> "asyncio.Future[list[LineResult]]":
        """Returns a future of a batch's answers, or of a `WorkerDiedError`."""
        number = next(self._numbers)
        answers: asyncio.Future[list[LineResult]] = asyncio.get_running_loop().create_future()
        if self.death.done():
            answers.set_exception(WorkerDiedError(self.death.result()))
            return answers
        self._running[number] = answers
        answers.add_done_callback(lambda _: self._running.pop(number, None))
        self.send((number, list(requests)))
        return answers

    async def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Lets it finish its batches for at most some seconds, then ends it."""
        try:
            if self._running:
                await asyncio.wait([*self._running.values()], timeout=seconds)
        finally:
            await self.kill()

    async def kill(self) -> None:
        """Kills it, and waits for its end."""
        self.end()
        await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def _read_answers(self) -> None:
        try:
            while True:
                number, answers, is_whole = await self.receive()
                found = self._found.setdefault(number, [])
                found += answers
                if not is_whole:
                    continue
                del self._found[number]
                waiting = self._running.get(number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(found)
        except (asyncio.IncompleteReadError, ConnectionError):
            how = describe_end(await self._process.wait())
            self.death.set_result(how)
            for waiting in list(self._running.values()):
                if not waiting.done():
                    waiting.set_exception(WorkerDiedError(how))
