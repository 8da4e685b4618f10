"""One model: its queue, its process, and restarts."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.inference.translation import Translation
from mtkit.llm import is_llm_file
from mtkit.llm.settings import LlmSettings, read_llm_settings
from mtkit.model.alignment_head import has_alignments
from mtkit.model.config import read_config, read_settings
from mtkit.recipe.inference import Inference
from mtkit.serving.backoff import Backoff
from mtkit.serving.fair_queue import (
    FairQueue,
    Job,
    LineRequest,
    LineResult,
    QueuedLine,
    QueueFullError,
    RenderedLine,
)
from mtkit.serving.metrics import Metrics
from mtkit.serving.request_errors import LineFault, busy
from mtkit.serving.served_languages import ServedLanguages
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import ModelSource
from mtkit.serving.worker_process import WorkerDiedError, WorkerProcess
from mtkit.text.tokenizer import SubwordTokenizer

ChooseSettings = Callable[[Path], Inference]
"""Returns the decoding settings of a model folder, each time it is opened."""

_MIN_LINES_PER_THREAD = 4
"""Fewer aren't split: searched one by one they take a third longer."""
_STABLE_SECONDS = 60.0
"""A process that dies sooner, without an answer, has failed."""


def own_settings(folder: Path) -> Inference:
    """Returns a folder's decoding settings; the defaults for a large language model."""
    return Inference() if is_llm_file(folder) else read_settings(folder)


@dataclass(frozen=True)
class ServedModel:
    """A model folder that is served, or the file of a large language model.

    Attributes:
        name: Its name in requests.
        has_alignments: Whether a head was chosen, or an aligner learned, for alignments; only the
            process knows whether it works.
        llm: What the file of a large language model says; None for a model folder.
        choose_settings: Chooses decoding settings when the folder is opened again.
    """

    name: str
    source: ModelSource
    languages: ServedLanguages
    has_alignments: bool = False
    llm: LlmSettings | None = None
    choose_settings: ChooseSettings = own_settings

    @classmethod
    def open(
        cls, name: str, folder: Path, device: str, choose_settings: ChooseSettings = own_settings
    ) -> "ServedModel":
        """Returns a folder's translator without loading torch; rejects other models."""
        source = ModelSource(folder, choose_settings(folder), device)
        if is_llm_file(folder):
            return cls._open_llm(name, source, choose_settings)
        config = read_config(folder)
        if config.objective != "translation" or config.parsing is not None:
            raise MtkitError(
                f'{folder}: not a translator (objective = "{config.objective}")',
                "mtkit serve serves translators; mtkit translate takes any model",
            )
        languages = ServedLanguages.of(
            SubwordTokenizer.load(folder).languages, config.source_language, config.target_language
        )
        has_head = has_alignments(folder)
        return cls(name, source, languages, has_head, choose_settings=choose_settings)

    @classmethod
    def _open_llm(
        cls, name: str, source: ModelSource, choose_settings: ChooseSettings
    ) -> "ServedModel":
        file = read_llm_settings(source.folder)
        if not file.serve:
            raise MtkitError(
                f"{source.folder}: the texts of all callers would go to {file.url}",
                "to allow this, set in the file: serve = true",
            )
        say(f"{name}: texts go to {file.url}")
        languages = ServedLanguages.of_codes(file.source_languages, file.target_languages)
        return cls(name, source, languages, llm=file, choose_settings=choose_settings)


class ModelService:
    """Translates and scores lines with a model, in batches that callers share.

    Attributes:
        model: As it was last loaded.
        used_at: Time of the last request, by the event loop's clock.
    """

    def __init__(self, model: ServedModel, settings: Serving, metrics: Metrics) -> None:
        self.model = model
        self.used_at = 0.0
        self._settings, self._metrics = settings, metrics
        self._queue = FairQueue(settings.queue_lines, mixes_jobs=model.llm is None)
        self._worker: WorkerProcess | None = None
        self._starting: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._batches: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._backoff = Backoff()
        self._is_closed = False
        self._is_reloading = False
        self._has_answered = self._is_trying = False
        self._num_long = 0

    @property
    def is_ready(self) -> bool:
        """Whether its process has loaded the model."""
        return self._worker is not None

    @property
    def is_idle(self) -> bool:
        """Whether no line is waiting or running."""
        return not self._batches and not len(self._queue)

    @property
    def num_waiting(self) -> int:
        """Lines in the queue."""
        return len(self._queue)

    def measure_bytes(self) -> int:
        """Returns its process's memory; 0 without one."""
        return self._worker.measure_bytes() if self._worker is not None else 0

    async def answer(self, requests: Sequence[LineRequest]) -> list[LineResult]:
        """Returns the answer to each line. A caller that is cancelled leaves the queue.

        Raises:
            RequestError: The queue is full, or the model can't be loaded for now.
        """
        if not requests:
            return []
        loop = asyncio.get_running_loop()
        self.used_at = loop.time()
        if self._worker is None and self._backoff.is_delaying:
            raise busy(f"{self.model.name} can't be loaded at present", 30)
        job = Job(requests)
        try:
            self._queue.add(job)
        except QueueFullError:
            self._metrics.refused.labels(self.model.name).inc()
            raise busy("too many texts are waiting; try again soon", 2) from None
        self._start_soon()
        self._pump()
        try:
            answers = await job.done
        finally:
            job.done.cancel()
            self._queue.drop(job)
        self._metrics.seconds.labels(self.model.name).observe(loop.time() - job.queued_at)
        return answers

    @property
    def is_starting(self) -> bool:
        """Whether a process is loading the model."""
        return self._starting is not None or self._loading is not None

    async def start(self) -> None:
        """Loads the model, or waits while it is being loaded.

        Loading goes on if the caller is cancelled, since others may wait for it.

        Raises:
            MtkitError: It can't be loaded, or has failed so often that it must wait.
            OSError: Likewise.
        """
        while self._worker is None and not self._is_closed:
            if self._backoff.seconds_left:
                raise MtkitError(f"{self.model.name}: its processes keep failing")
            loading = self._load()
            await asyncio.wait([loading])
            if not loading.cancelled() and (error := loading.exception()) is not None:
                raise error

    async def reload(self) -> None:
        """Loads the folder's current model; running requests finish with the old one.

        Raises:
            MtkitError: It can't be loaded; the old one stays.
        """
        known = self.model
        model = ServedModel.open(
            known.name, known.source.folder, known.source.device, known.choose_settings
        )
        if self._worker is None and not self.is_starting:
            self.model = model
            return
        self._is_reloading = True
        try:
            # A restart now would load the folder's old content.
            await self._stop_starting()
            worker = await self._start_process(model)
            old, self.model = self._worker, model
            self._take(worker)
        finally:
            self._is_reloading = False
            self._start_soon()
        if old is not None:
            # Its batches may take long, and others wait for this reload.
            leaving = asyncio.create_task(old.stop(self._settings.request_seconds))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def unload(self) -> None:
        """Ends its idle process; the next request starts a new one."""
        worker, self._worker = self._worker, None
        self._stop_watching()
        if worker is not None:
            await worker.stop()

    async def close(self) -> None:
        """Ends its process permanently."""
        self._is_closed = True
        await self._stop_starting()
        await self.unload()
        for leaving in self._leaving:
            leaving.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _stop_starting(self) -> None:
        tasks = [each for each in (self._starting, self._loading) if each is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._starting = self._loading = None

    def _load(self) -> asyncio.Task[None]:
        """Returns the task that is loading the model, or a new one."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._try_to_load())
            # Nobody may be waiting for an error.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._loading

    async def _try_to_load(self) -> None:
        try:
            self._take(await self._start_process(self.model))
        except (MtkitError, OSError):
            self._backoff.note_failure()
            raise
        finally:
            self._loading = None

    async def _start_process(self, model: ServedModel) -> WorkerProcess:
        max_bytes = int(self._settings.batch_memory_gib * (1 << 30))
        return await WorkerProcess.start(replace(model.source, max_batch_bytes=max_bytes))

    def _take(self, worker: WorkerProcess) -> None:
        self._stop_watching()
        self._worker, self._has_answered = worker, False
        self._watching = asyncio.create_task(self._watch(worker))
        self._pump()

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, worker: WorkerProcess) -> None:
        """Starts a new process when this one dies."""
        started_at = asyncio.get_running_loop().time()
        how = await asyncio.shield(worker.death)
        self._worker = None
        self._metrics.restarts.labels(self.model.name).inc()
        is_stable = asyncio.get_running_loop().time() - started_at >= _STABLE_SECONDS
        if is_stable or self._has_answered:
            self._backoff.reset()
        else:
            self._backoff.note_failure()
        warn(f"{self.model.name}: its process {how}; another is started")
        self._start_soon()

    def _start_soon(self) -> None:
        is_held = self._is_closed or self._is_reloading
        if self._worker is None and self._starting is None and not is_held:
            self._starting = asyncio.create_task(self._start_again())

    async def _start_again(self) -> None:
        try:
            while self._worker is None:
                await asyncio.sleep(self._backoff.seconds_left)
                try:
                    await self._load()
                except (MtkitError, OSError) as error:
                    warn(f"{self.model.name}: {error}")
                else:
                    say(f"{self.model.name}: loaded")
        finally:
            self._starting = None

    def _pump(self) -> None:
        """Gives the process full batches, and lines that have waited long enough."""
        settings = self._settings
        while (worker := self._worker) is not None:
            num_free = worker.loaded.num_batches - worker.num_running
            if worker.num_running and (self._queue.has_suspects or self._is_trying):
                # A line with which a process died runs alone, so that no other line is blamed.
                return
            if worker.death.done():
                # `_watch` hasn't seen it yet; no line must be blamed for a second death.
                return
            num_waiting = len(self._queue)
            if num_free <= 0 or not num_waiting or self._must_wait(num_waiting):
                return
            num_lines = self._batch_lines
            if worker.loaded.distributes_lines:
                share = max(_MIN_LINES_PER_THREAD, math.ceil(num_waiting / num_free))
                num_lines = min(num_lines, share)
            # One slot stays free, so that long lines don't delay others.
            may_be_long = self._num_long < worker.loaded.num_batches - 1
            lines = self._queue.take(num_lines, settings.batch_characters, may_be_long=may_be_long)
            if not lines:
                return
            self._is_trying = lines[0].attempts > 0
            # Before the task starts, so that the batch counts as running at once.
            work = worker.work([line.ask for line in lines])
            task = asyncio.create_task(self._run(worker, lines, work))
            self._num_long += self._is_long(lines)
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    @property
    def _batch_lines(self) -> int:
        """Maximum lines of a batch; a large language model's batch is one request."""
        llm = self.model.llm
        return self._settings.batch_lines if llm is None else llm.lines_per_request

    def _must_wait(self, num_waiting: int) -> bool:
        """Checks whether lines should wait for others, and starts a timer."""
        if num_waiting >= self._batch_lines:
            return False
        if self._timer is not None:
            # It was set for the same lines, or for older ones.
            return True
        oldest, loop = self._queue.oldest, asyncio.get_running_loop()
        if oldest is None:
            return False
        due = oldest + self._settings.batch_wait_milliseconds / 1000
        if due <= loop.time():
            return False
        self._timer = loop.call_at(due, self._pump_on_time)
        return True

    def _pump_on_time(self) -> None:
        self._timer = None
        self._pump()

    async def _run(
        self,
        worker: WorkerProcess,
        lines: list[QueuedLine],
        work: "asyncio.Future[list[LineResult]]",
    ) -> None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        deadline = loop.call_later(self._find_timeout(lines), self._end_on_timeout, worker, work)
        try:
            answers = await work
        except WorkerDiedError:
            self._queue.put_back([line for line in lines if line.job.is_wanted])
        else:
            self._has_answered = True
            for line, answer in zip(lines, answers, strict=True):
                line.answer(answer)
                if isinstance(answer, LineFault) and answer.is_fault_of_server:
                    self._queue.fail(line, answer)
            self._count(answers, loop.time() - started_at)
        finally:
            deadline.cancel()
            self._num_long -= self._is_long(lines)
        self._pump()

    def _is_long(self, lines: Sequence[QueuedLine]) -> bool:
        return lines[0].num_characters > self._settings.batch_characters

    def _find_timeout(self, lines: Sequence[QueuedLine]) -> float:
        """Returns a batch's timeout in seconds."""
        num_characters = sum(line.num_characters for line in lines)
        seconds = self._settings.batch_seconds
        if lines[0].attempts:
            # It is a single line, and no other batch is running.
            seconds /= 2
        seconds *= max(1.0, num_characters / self._settings.batch_characters)
        if (llm := self.model.llm) is not None:
            # It has its own timeouts, so that this one is for a process that hangs.
            limits = llm.limits
            wait = limits.connect_seconds + limits.request_seconds + limits.wait_seconds
            seconds = max(seconds, len(lines) * (2 + llm.retries) * limits.attempts * wait)
        return seconds

    def _end_on_timeout(
        self, worker: WorkerProcess, work: "asyncio.Future[list[LineResult]]"
    ) -> None:
        """Ends a process whose batch takes too long; its lines are tried one by one."""
        if not work.done():
            warn(f"{self.model.name}: a batch timed out; the process is killed")
            if self._worker is worker:
                # It isn't ready any more. A timeout doesn't count as a failed start.
                self._worker, self._has_answered = None, True
            worker.end()

    def _count(self, answers: Sequence[LineResult], elapsed: float) -> None:
        name, metrics = self.model.name, self._metrics
        metrics.batch_lines.labels(name).observe(len(answers))
        metrics.batch_seconds.labels(name).observe(elapsed)
        metrics.tokens.labels(name).inc(sum(map(_count_tokens, answers)))


def _count_tokens(answer: LineResult) -> int:
    match answer:
        case Translation():
            return len(answer.candidates[0].token_ids)
        case RenderedLine():
            return answer.num_tokens
        case _:
            return 0
