"""A function over many items in several processes: results in order, memory bounded.

The processes are plain children that read tasks from a pipe. They end with it, so that none
outlives a parent that was killed, and they never run the caller's main module, so that functions
of mtkit that use them can be called from any script.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any, TypeVar

from mtkit.errors import MtkitError
from mtkit.standard_streams import open_standard_streams

Item = TypeVar("Item")
Result = TypeVar("Result")

_FEW_ITEMS = 2
"""No more than these are done here: starting processes would take longer."""
_ITEMS_AHEAD = 2
"""Items handed out per process: one it works on and one that waits."""
_SERVE = "import sys; sys.path[:] = {path!r}; from mtkit.worker_processes import serve; serve()"


def map_in_order(
    build: Callable[[], Callable[[Item], Result]],
    items: Iterable[Item],
    *,
    num_workers: int,
    hint: str = "if it ran out of memory: --workers 1",
) -> Iterator[Result]:
    """Yields a function's result for each item, in order, whatever the number of workers.

    Args:
        build: Makes the function, once in each process; it, items and results must be picklable
            (a `functools.partial` of a module's function is).
        items: What to work on; read a few ahead of the results.
        num_workers: Processes; with 1, or with hardly any items, all is done in this one.
        hint: What to do where a process dies.

    Raises:
        MtkitError: A worker process died; any that the function raises.
    """
    remaining = iter(items)
    first = list(islice(remaining, _FEW_ITEMS + 1))
    if num_workers == 1 or len(first) <= _FEW_ITEMS:
        function = build()
        yield from map(function, chain(first, remaining))
        return
    workers: SimpleQueue[_Worker] = SimpleQueue()
    started = [_Worker(build, hint) for _ in range(num_workers)]
    for worker in started:
        workers.put(worker)

    def work(item: Item) -> Result:
        worker = workers.get()
        try:
            result: Result = worker.work(item)
        finally:
            workers.put(worker)
        return result

    with ThreadPoolExecutor(num_workers) as threads:
        try:
            pending: deque[Future[Result]] = deque()
            for item in chain(first, remaining):
                pending.append(threads.submit(work, item))
                if len(pending) > num_workers * _ITEMS_AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            # Before the threads are waited for, which wait for them.
            threads.shutdown(wait=False, cancel_futures=True)
            for worker in started:
                worker.stop()


class _Worker:
    """A child process that applies one function to what it is sent."""

    def __init__(self, build: Callable[[], Callable[[Any], Any]], hint: str) -> None:
        self._hint = hint
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # The processes are as many as the cores.
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            # Out of reach of Ctrl-C: the parent decides what becomes of them.
            process_group=0,
        )
        self._send(build)

    def work(self, item: Any) -> Any:
        """Returns the function's result, or raises what it raised."""
        self._send(item)
        assert self._process.stdout is not None
        try:
            is_result, content = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._death() from error
        if not is_result:
            raise content
        return content

    def stop(self) -> None:
        """Ends the process, whatever it was doing."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                # What it never read is of no interest any more.
                continue
        self._process.wait()

    def _send(self, content: Any) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(content, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._death() from error

    def _death(self) -> MtkitError:
        code = self._process.wait()
        how = (
            f"was killed by {signal.Signals(-code).name}"
            if code < 0
            else f"exited with code {code}"
        )
        return MtkitError(f"a worker process {how} while it was working", self._hint)


def serve() -> None:
    """Does what is asked on stdin until it ends: the main function of a worker process."""
    open_standard_streams()
    tasks = sys.stdin.buffer
    # What any library prints must not get among the results.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        build = pickle.load(tasks)
        function: Callable[[Any], Any] | None = None
        while True:
            item = pickle.load(tasks)
            try:
                function = function or build()
                answer = (True, function(item))
            except (MtkitError, OSError) as error:
                answer = (False, error)
            pickle.dump(answer, results, pickle.HIGHEST_PROTOCOL)
            results.flush()
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        # The parent has what it wanted, or is gone.
        os._exit(0)
