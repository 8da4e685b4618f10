"""Runs a job over many items: results in order or as completed, in bounded memory."""

import pickle
import subprocess
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol, TypeVar

from mtkit.child_processes import describe_end, prepare_start
from mtkit.cpus import count_cpus
from mtkit.errors import MtkitError
from mtkit.memory import free_memory_bytes

Item = TypeVar("Item")
Result = TypeVar("Result")
JobBuilder = Callable[[], Callable[[Item], Result]]

_FEW_ITEMS = 2
"""Up to this many items are done in this process: starting workers would take longer."""
_MIN_SECONDS_PER_WORKER = 2.0
"""Starting a process takes one."""
ITEMS_AHEAD = 2
"""Items per worker: one in progress and one waiting."""


@dataclass(frozen=True)
class WorkerNeeds:
    """What each worker of a job needs.

    Attributes:
        num_bytes: Memory of the models that it holds; 0 for a job without models.
        on_gpu: Whether they run on this machine's GPU, where there is one.
        is_remote: Whether they run on a server, which one worker keeps busy.
    """

    num_bytes: int = 0
    on_gpu: bool = False
    is_remote: bool = False


NO_MODELS = WorkerNeeds()


class Executor(Protocol):
    """Runs a job over many items; callers don't know how many workers it has or where they are."""

    def run(
        self,
        build_job: JobBuilder[Item, Result],
        items: Iterable[Item],
        *,
        ordered: bool = True,
        on_loss: Callable[[Item], Result] | None = None,
    ) -> Generator[Result, None, None]:
        """Yields the job's result for each item; results don't depend on the number of workers.

        Closing the iterator ends the workers, whatever they are doing. `build_job` makes the job
        once in each worker; it, items and results must be picklable (a `functools.partial` of a
        module's function is). Items are read only slightly ahead of results, so they may be
        endless. Unless `ordered`, results come as they are completed. `on_loss` makes the result of
        an item that keeps killing workers, if the user chose to continue without it. Raises
        MtkitError if a worker dies, OSError if none can be started, and the job's own errors of
        these types.
        """
        ...

    def fit(self, needs: WorkerNeeds) -> "Executor":
        """Returns an executor with as many workers as memory and GPUs allow."""
        ...


@dataclass(frozen=True)
class LocalExecutor(Executor):
    """Workers on this machine: child processes that receive items through pipes.

    They end with the run, and with the process that started them, however it ends. Only that
    process receives Ctrl-C. With one worker, or very few items, everything is done in this process.
    `hint` says what to do if a worker dies.
    """

    num_workers: int
    hint: str = "if it ran out of memory: --workers 1"

    @classmethod
    def for_work(cls, seconds: float, num_items: int) -> "LocalExecutor":
        """Returns an executor for so many seconds of work: at most a worker per CPU and item."""
        worthwhile = int(seconds / _MIN_SECONDS_PER_WORKER)
        hint = "check whether the machine ran out of memory"
        return cls(max(1, min(count_cpus(), worthwhile, num_items)), hint)

    def run(
        self,
        build_job: JobBuilder[Item, Result],
        items: Iterable[Item],
        *,
        ordered: bool = True,
        on_loss: Callable[[Item], Result] | None = None,
    ) -> Generator[Result, None, None]:
        """Yields the job's result for each item; a worker that dies is an error; see `Executor`."""
        del on_loss
        remaining = iter(items)
        first = list(islice(remaining, _FEW_ITEMS + 1))
        if self.num_workers == 1 or len(first) <= _FEW_ITEMS:
            yield from map(build_job(), chain(first, remaining))
            return
        started: list[_Worker] = []
        idle: SimpleQueue[_Worker] = SimpleQueue()
        following: SimpleQueue[Future[Result]] = SimpleQueue()
        num_pending = 0

        def work(item: Item) -> Result:
            worker = idle.get()
            try:
                worker.send(item)
                result: Result = worker.receive()
            finally:
                idle.put(worker)
            return result

        with ThreadPoolExecutor(self.num_workers) as threads:
            try:
                for _ in range(self.num_workers):
                    started.append(_Worker(self.hint))
                    started[-1].send(build_job)
                    idle.put(started[-1])
                for item in chain(first, remaining):
                    future = threads.submit(work, item)
                    if ordered:
                        following.put(future)
                    else:
                        future.add_done_callback(following.put)
                    num_pending += 1
                    if num_pending > self.num_workers * ITEMS_AHEAD:
                        yield following.get().result()
                        num_pending -= 1
                for _ in range(num_pending):
                    yield following.get().result()
            finally:
                # Before waiting for the threads, which wait for the workers.
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in started:
                    worker.stop()

    def fit(self, needs: WorkerNeeds) -> "LocalExecutor":
        """Returns an executor with as many workers as there is memory for; one on a GPU."""
        if needs.on_gpu or needs.is_remote:
            return replace(self, num_workers=1)
        free = free_memory_bytes()
        if free is None or not needs.num_bytes:
            return self
        return replace(self, num_workers=max(1, min(self.num_workers, free // needs.num_bytes)))


ONE_WORKER = LocalExecutor(1)
"""Does everything in this process."""


class _Worker:
    """A child process that applies a job to the items it receives."""

    def __init__(self, hint: str) -> None:
        self._hint = hint
        # There are as many processes as cores.
        command, options = prepare_start(__name__, OMP_NUM_THREADS="1")
        self._process = subprocess.Popen(command, **options)

    def send(self, content: Any) -> None:
        """Sends the job's builder first, then items."""
        assert self._process.stdin is not None
        try:
            pickle.dump(content, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._explain_end() from error

    def receive(self) -> Any:
        """Returns the job's result, or raises its error."""
        assert self._process.stdout is not None
        try:
            is_result, content = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._explain_end() from error
        if not is_result:
            raise content
        return content

    def stop(self) -> None:
        self._process.kill()
        # Closes its pipes and waits for its end; unread input no longer matters.
        with suppress(BrokenPipeError), self._process:
            pass

    def _explain_end(self) -> MtkitError:
        how = describe_end(self._process.wait())
        return MtkitError(f"a worker process {how} while it was working", self._hint)


def do_item(
    build_job: JobBuilder[Item, Result], job: Callable[[Item], Result] | None, item: Item
) -> tuple[Callable[[Item], Result] | None, tuple[bool, Any]]:
    """Returns the job, built for the first item, and (True, result) or (False, error)."""
    try:
        job = job or build_job()
        return job, (True, job(item))
    except (MtkitError, OSError) as error:
        return job, (False, error)


def main(tasks: BinaryIO, results: BinaryIO) -> None:
    """Applies a job to items: the main function of a worker."""
    build_job = pickle.load(tasks)
    job: Callable[[Any], Any] | None = None
    while True:
        job, answer = do_item(build_job, job, pickle.load(tasks))
        pickle.dump(answer, results, pickle.HIGHEST_PROTOCOL)
        results.flush()
