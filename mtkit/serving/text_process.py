"""The server's side of processes that handle untrusted texts, and their scheduling."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from mtkit.console import warn
from mtkit.serving.messages import ChildProcess, start_process
from mtkit.serving.request_errors import RequestError, busy
from mtkit.serving.text_main import CancelTask, ProcessLimits, TaskQuestion, TaskResult
from mtkit.serving.text_tasks import Fault, Task

_MODULE = "mtkit.serving.text_main"
_NUM_ISOLATED_PROCESSES = 2
_MAX_TASKS = 2_000
"""Tasks before a process is replaced, which frees memory that libraries leak."""
Answer = Callable[[Any], Awaitable[Any]]
"""Answers a task's question."""


class TextProcessDiedError(Exception):
    """The process ended during a task; `is_own_fault` if this task exceeded its timeout."""

    def __init__(self, *, is_own_fault: bool) -> None:
        super().__init__()
        self.is_own_fault = is_own_fault


class RunningTask:
    """A task of a process, with its number there and a timeout for each reply.

    Attributes:
        ended: Done when the process has finished it, even if its caller has left.
    """

    def __init__(self, process: "TextProcess", number: int, seconds: float) -> None:
        self._process, self._number, self._seconds = process, number, seconds
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._deadline: asyncio.TimerHandle | None = None
        self._is_late = False
        self.ended: asyncio.Future[None] = self._loop.create_future()

    async def converse(self, answer: Answer | None) -> Any:
        """Returns the result or a `Fault`; `answer` answers its questions.

        An error in `answer` ends the task.

        Raises:
            TextProcessDiedError: The process ended.
        """
        try:
            while True:
                reply = await self._replies.get()
                if isinstance(reply, TextProcessDiedError):
                    raise reply
                if isinstance(reply, TaskResult):
                    return reply.result
                assert answer is not None
                self.send(await answer(reply.content))
        finally:
            if not self.ended.done():
                # It counts as running, with its timeout, until it reports its end.
                self.send(CancelTask())

    def send(self, content: Any) -> None:
        """Sends the task, or an answer to it, and starts its timeout."""
        self._stop_time()
        self._deadline = self._loop.call_later(self._seconds, self._end_on_timeout)
        self._process.send((self._number, content))

    def take(self, reply: Any) -> None:
        """Receives a reply of the process."""
        self._stop_time()
        self._replies.put_nowait(reply)
        if not isinstance(reply, TaskQuestion):
            self.ended.set_result(None)

    def end(self) -> None:
        """Ends the task because its process has ended."""
        self.take(TextProcessDiedError(is_own_fault=self._is_late))

    def _stop_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _end_on_timeout(self) -> None:
        self._is_late = True
        self._process.end()


class TextProcess(ChildProcess):
    """A process, made by `start`; all its methods belong to one event loop.

    Attributes:
        num_tasks: Tasks so far.
        is_alive: Whether it takes more.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self._running: dict[int, RunningTask] = {}
        self.num_tasks = 0
        self.is_alive = True
        self._reading = asyncio.create_task(self._read_replies())

    @classmethod
    async def start(cls, limits: ProcessLimits) -> "TextProcess":
        """Returns a started process."""
        started = cls(await start_process(_MODULE, knows_secrets=False))
        started.send(limits)
        return started

    @property
    def num_running(self) -> int:
        """Running tasks, including those of callers that have left."""
        return len(self._running)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._reading.done()

    def begin(self, task: Task, seconds: float) -> RunningTask:
        """Starts a task with a timeout in seconds for each reply."""
        number = self.num_tasks
        self.num_tasks += 1
        running = self._running[number] = RunningTask(self, number, seconds)
        running.send(task)
        return running

    def end(self) -> None:
        """Kills the process."""
        self.is_alive = False
        super().end()

    async def kill(self) -> None:
        """Kills the process, and waits for its end."""
        self.end()
        await self._reading

    async def _read_replies(self) -> None:
        try:
            while True:
                number, reply = await self.receive()
                running = self._running[number]
                if isinstance(reply, TaskResult):
                    del self._running[number]
                running.take(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.end()
            await self._process.wait()
            tasks, self._running = self._running, {}
            for running in tasks.values():
                running.end()


class FairSemaphore:
    """Limits the number of tasks at once; waiting ones are admitted round-robin by caller.

    There are `num_turns` more for callers without a task, so that callers who occupy all don't
    delay them.
    """

    def __init__(self, num_turns: int) -> None:
        self._num_turns, self._num_running = num_turns, 0
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, caller: str) -> None:
        """Waits for a slot for a caller's task."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        self._accept()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(caller)
            raise

    def give_back(self, caller: str) -> None:
        """Releases a caller's slot."""
        self._num_running -= 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        if caller in self._waiting:
            self._waiting.move_to_end(caller)
        self._accept()

    def _accept(self) -> None:
        for caller in list(self._waiting):
            if self._num_running >= 2 * self._num_turns:
                return
            turns = self._waiting[caller]
            while turns and turns[0].done():
                turns.popleft()
            limit = self._num_turns if self._running[caller] else 2 * self._num_turns
            if turns and self._num_running < limit:
                turns.popleft().set_result(None)
                self._num_running += 1
                self._running[caller] += 1
                self._waiting.move_to_end(caller)
            if not turns:
                del self._waiting[caller]


class ProcessPool:
    """Processes for one kind of task.

    Args:
        name: For warnings.
        limits: Of each process.
        num_processes: Started on demand. Under load there are more, for callers without a task.
        repeats: Whether a task whose process ended runs again, alone in a process.
    """

    def __init__(
        self, name: str, limits: ProcessLimits, num_processes: int, *, repeats: bool = True
    ) -> None:
        self._name, self._limits, self._num_processes = name, limits, num_processes
        self._turns = FairSemaphore(num_processes * limits.num_tasks)
        self._processes: list[TextProcess] = []
        self._is_single = limits.num_tasks == 1
        self._starting = asyncio.Lock()
        self._starts: set[asyncio.Task[TextProcess]] = set()
        self._isolated: ProcessPool | None = None
        if repeats:
            alone = replace(limits, num_tasks=1)
            self._isolated = ProcessPool(name, alone, _NUM_ISOLATED_PROCESSES, repeats=False)

    async def run(
        self, task: Task, caller: str, answer: Answer | None = None, *, seconds: float
    ) -> Any:
        """Returns the result of a task; cancelling the call ends the task.

        Raises:
            RequestError: The text is invalid, or exceeds time or memory; or from `answer`.
        """
        await self._turns.take(caller)
        running: RunningTask | None = None
        try:
            process = await self._choose()
            running = process.begin(task, seconds)
            try:
                result = await running.converse(answer)
            except TextProcessDiedError as error:
                # Other tasks of the process may have caused the timeout.
                if self._isolated is None or (error.is_own_fault and self._is_single):
                    raise self._describe_end(error) from error
                return await self._isolated.run(task, caller, answer, seconds=seconds)
            if isinstance(result, Fault) and result.may_be_others and not self._is_single:
                assert self._isolated is not None
                return await self._isolated.run(task, caller, answer, seconds=seconds)
        finally:
            if running is None or running.ended.done():
                self._turns.give_back(caller)
            else:
                running.ended.add_done_callback(lambda _: self._turns.give_back(caller))
                if self._is_single:
                    process.end()
        self._retire(process)
        if isinstance(result, Fault):
            if result.may_be_others:
                warn(f"a request failed in its own process: {result.message}")
            raise RequestError(result.status, result.message)
        return result

    async def close(self) -> None:
        """Ends its processes."""
        await asyncio.gather(*self._starts, return_exceptions=True)
        processes, self._processes = self._processes, []
        await asyncio.gather(*(process.kill() for process in processes))
        if self._isolated is not None:
            await self._isolated.close()

    async def _choose(self) -> TextProcess:
        """Returns the process with the fewest tasks, or a new one if all are busy."""
        async with self._starting:
            self._processes = [each for each in self._processes if not each.has_ended]
            alive = [each for each in self._processes if each.is_alive]
            free = [each for each in alive if each.num_running < self._limits.num_tasks]
            best = min(free, key=lambda each: each.num_running, default=None)
            if best is not None and not (best.num_running and len(alive) < self._num_processes):
                return best
            started = await self._start()
            self._processes.append(started)
            return started

    async def _start(self) -> TextProcess:
        starting = asyncio.create_task(TextProcess.start(self._limits))
        self._starts.add(starting)
        starting.add_done_callback(self._starts.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._end_unwanted)
            raise
        except OSError as error:
            warn(f"{self._name}: no process can be started: {error}")
            raise busy("no process can be started; try again soon", 10) from error

    def _end_unwanted(self, starting: "asyncio.Task[TextProcess]") -> None:
        """Ends a process whose caller left while it was starting."""
        if not starting.cancelled() and starting.exception() is None:
            starting.result().end()
            self._processes.append(starting.result())

    def _retire(self, process: TextProcess) -> None:
        """Ends an idle process that has grown, is old, or is surplus."""
        if process.num_running or not process.is_alive:
            return
        num_alive = sum(each.is_alive for each in self._processes)
        if (
            num_alive > self._num_processes
            or process.num_tasks >= _MAX_TASKS
            or process.measure_bytes() > self._limits.max_bytes // 2
        ):
            process.end()

    def _describe_end(self, error: TextProcessDiedError) -> RequestError:
        what = "time" if error.is_own_fault else "memory or time"
        warn(f"{self._name}: a text took too much {what}; its process has been replaced")
        return RequestError(400, f"Invalid request: it takes too much {what} to read")
