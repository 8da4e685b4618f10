"""A process that handles untrusted text: tasks come on stdin, and results go to stdout.

It ends with the server, which also kills it if a task exceeds its timeout.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple

from mtkit.errors import MtkitError
from mtkit.serving.messages import limit_memory, read_message, write_message
from mtkit.serving.request_errors import RequestError, log_bug
from mtkit.serving.text_tasks import Fault, Task

_STACK_BYTES = 4 << 20


@dataclass(frozen=True)
class ProcessLimits:
    """What a process of a pool may use.

    Attributes:
        num_tasks: Parallel tasks.
        max_bytes: Memory that it may allocate.
        niceness: Lowers its priority below the server and its models, from 0 to 19.
    """

    num_tasks: int
    max_bytes: int
    niceness: int = 0


class TaskQuestion(NamedTuple):
    """A task's question to the server."""

    content: Any


class TaskResult(NamedTuple):
    """The result of a task, or its `Fault`."""

    result: Any


class CancelTask(NamedTuple):
    """Ends a task at its next question."""


class CancelledTaskError(Exception):
    """The caller has left."""


def run_task(task: Task, answers: "SimpleQueue[Any]", send: Any) -> None:
    """Runs a task: sends its questions, receives the answers in order, and sends its result."""

    def ask(question: Any) -> Any:
        send(TaskQuestion(question))
        answer = answers.get()
        if isinstance(answer, CancelTask):
            raise CancelledTaskError
        return answer

    try:
        result = task.run(ask)
    except (MtkitError, RequestError) as error:
        result = Fault.of(error)
    except CancelledTaskError:
        result = None
    except MemoryError:
        result = Fault(
            400,
            "Invalid request: it takes too much memory (serve.file_memory_mib)",
            may_be_others=True,
        )
    except Exception as error:  # noqa: BLE001  the last line of defence: it is logged, once
        log_bug(error)
        result = Fault(500, "internal error")
    send(TaskResult(result))


def main(tasks: BinaryIO, results: BinaryIO) -> None:
    """Runs tasks: the main function of the process."""
    writing = threading.Lock()
    conversations: dict[int, SimpleQueue[Any]] = {}

    def send(number: int, content: Any) -> None:
        with writing:
            write_message(results, (number, content))
            results.flush()

    def run(number: int, task: Task) -> None:
        try:
            run_task(task, conversations[number], lambda content: send(number, content))
        except BrokenPipeError:
            os._exit(0)
        finally:
            del conversations[number]

    limits: ProcessLimits = read_message(tasks)
    os.nice(limits.niceness)
    threading.stack_size(_STACK_BYTES)
    limit_memory(limits.max_bytes + limits.num_tasks * _STACK_BYTES)
    with ThreadPoolExecutor(limits.num_tasks) as threads:
        while True:
            number, content = read_message(tasks)
            if number in conversations:
                conversations[number].put(content)
            elif not isinstance(content, CancelTask):
                conversations[number] = SimpleQueue()
                threads.submit(run, number, content)
