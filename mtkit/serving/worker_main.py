"""A model in its own process: reads batches from stdin, and writes results to stdout.

The process ends with its parent, runs only mtkit's code, and ignores Ctrl-C.
"""

import gc
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import restore_order
from mtkit.inference.request import LineError, NotFiniteError, Request
from mtkit.inference.translation import Translation
from mtkit.inference.translator import Translator
from mtkit.llm import is_llm_file
from mtkit.recipe.inference import Inference
from mtkit.serving.fair_queue import LineRequest, LineResult, RenderedLine, RenderRequest
from mtkit.serving.messages import (
    limit_memory,
    measure_allocated,
    read_message,
    write_message,
)
from mtkit.serving.request_errors import LineFault, log_bug

_MIN_BATCHES = 2
"""While one is searched, another is tokenized, or its answers are sent."""
_CANDIDATES_PER_MESSAGE = 256
"""Candidates per message."""
_BATCHES_OF_A_CALL = 4
"""Batches per thread in one call of an engine with parallel threads."""


@dataclass(frozen=True)
class ModelSource:
    """A model that a process opens.

    Attributes:
        folder: Its folder, or the file of a large language model.
        settings: Decoding settings; the folder's if None.
        device: As in `Translator`.
        max_batch_bytes: Memory beyond the loaded model; 0 for no limit.
    """

    folder: Path
    settings: Inference | None
    device: str
    max_batch_bytes: int = 0


@dataclass(frozen=True)
class ModelLoaded:
    """A process's reply once it has its model.

    Attributes:
        num_batches: Batches at once.
        distributes_lines: Threads search their own batches: waiting lines are distributed to them.
    """

    num_batches: int = _MIN_BATCHES
    distributes_lines: bool = False

    @classmethod
    def of(cls, translator: Translator) -> "ModelLoaded":
        """Returns a translator's capacity: a batch per thread, but at least two."""
        num_threads = translator.batches_at_once // _BATCHES_OF_A_CALL
        return cls(max(_MIN_BATCHES, num_threads), distributes_lines=translator.batches_at_once > 1)


def open_source(source: ModelSource) -> tuple[Translator, ModelLoaded]:
    """Returns a model's translator with its capacity."""
    if not is_llm_file(source.folder):
        found = Translator(source.folder, settings=source.settings, device=source.device)
        return found, ModelLoaded.of(found)
    # Imported here: most models aren't LLMs.
    from mtkit.llm.open_llm import open_llm  # noqa: PLC0415

    lines = open_llm(source.folder, (), source.settings)
    return Translator(lines), ModelLoaded(max(_MIN_BATCHES, lines.llm.concurrent_requests))


def answer_batch(
    translator: Translator, requests: Sequence[LineRequest], *, is_llm: bool = False
) -> list[LineResult]:
    """Returns the answer to each line of any callers; an invalid line doesn't affect others."""
    answers = _answer_plain(translator, requests, is_llm=is_llm)
    return [
        RenderedLine.of(ask.request.text, each)
        if isinstance(ask, RenderRequest) and isinstance(each, Translation)
        else each
        for ask, each in zip(requests, answers, strict=True)
    ]


def _answer_plain(
    translator: Translator, asked: Sequence[LineRequest], *, is_llm: bool
) -> list[LineResult]:
    requests = [ask.request if isinstance(ask, RenderRequest) else ask for ask in asked]
    given = [
        index for index, ask in enumerate(asked) if isinstance(ask, RenderRequest) and ask.scores
    ]
    rest = [index for index in range(len(asked)) if index not in given]
    try:
        searched = [_choose_alignments(translator, requests[index]) for index in rest]
        translated = translator.search(searched, warns=False) if searched else []
        scored = translator.score([requests[index] for index in given]) if given else []
    except Exception as error:  # noqa: BLE001  a bug only affects its own line
        if is_llm and isinstance(error, MtkitError) and not isinstance(error, LineError):
            # It is down: no line is at fault, and retrying each alone would take as long again.
            warn(error.message)
            return [LineFault("the language model is down", is_fault_of_server=True)] * len(asked)
        if len(asked) > 1:
            return [_answer_plain(translator, [ask], is_llm=is_llm)[0] for ask in asked]
        if isinstance(error, MtkitError):
            return [_describe(error)]
        log_bug(error)
        return [LineFault("internal error", is_fault_of_server=True)]
    return [*restore_order((rest, given), (translated, scored))]


def _cut(answers: Sequence[LineResult]) -> Iterator[tuple[Sequence[LineResult], bool]]:
    """Yields some answers at a time, and whether they are the last."""
    # The server reads each message in milliseconds.
    first = num_candidates = 0
    for index, each in enumerate(answers):
        if num_candidates >= _CANDIDATES_PER_MESSAGE:
            yield answers[first:index], False
            first, num_candidates = index, 0
        num_candidates += len(each.candidates) if isinstance(each, Translation) else 1
    yield answers[first:], True


def _choose_alignments(translator: Translator, request: Request) -> Request:
    """Returns a request without alignments if the model has none."""
    settings = request.settings
    if settings is None or not settings.alignments or translator.aligns:
        return request
    own = translator.settings.alignments
    return replace(request, settings=settings.model_copy(update={"alignments": own}))


def _describe(error: MtkitError) -> LineFault:
    if isinstance(error, NotFiniteError):
        warn(f"{error.fault}: {error.hint}")
        return LineFault("the model is broken", is_fault_of_server=True)
    if isinstance(error, LineError):
        # The caller knows its own numbers.
        return LineFault(error.message.split(": ", 1)[1], error.hint)
    return LineFault.of(error)


def main(tasks: BinaryIO, results: BinaryIO) -> None:
    """Answers batches: the main function of the process."""
    writing = threading.Lock()

    def send(content: Any) -> None:
        with writing:
            write_message(results, content)
            results.flush()

    def answer(number: int, requests: Sequence[LineRequest]) -> None:
        found = answer_batch(translator, requests, is_llm=is_llm_file(source.folder))
        for answers, is_whole in _cut(found):
            send((number, answers, is_whole))

    source: ModelSource = read_message(tasks)
    try:
        translator, loaded = open_source(source)
    except (MtkitError, OSError) as error:
        send(error)
        return
    if source.max_batch_bytes and not _uses_gpu(source.device):
        limit_memory(measure_allocated() + source.max_batch_bytes)
    send(loaded)
    # What is loaded stays: garbage collection of it is useless.
    gc.freeze()
    with ThreadPoolExecutor(loaded.num_batches) as threads:
        while True:
            number, requests = read_message(tasks)
            running = threads.submit(answer, number, requests)
            running.add_done_callback(_exit_on_bug)


def _uses_gpu(device: str) -> bool:
    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    return has_gpu if device == "auto" else device != "cpu"


def _exit_on_bug(running: "Future[None]") -> None:
    """Ends the process after an unexpected error: the parent starts a new one."""
    error = running.exception()
    if error is None or isinstance(error, BrokenPipeError):
        return
    log_bug(error)
    os._exit(70)
