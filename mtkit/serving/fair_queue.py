"""A queue that takes lines of several jobs round-robin."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.inference.request import Request
from mtkit.inference.translation import Translation
from mtkit.serving.rendering import to_json
from mtkit.serving.request_errors import LineFault


@dataclass(frozen=True)
class RenderRequest:
    """A line whose answer the model's process renders as JSON.

    Attributes:
        scores: Its prefix is its translation, to be scored.
    """

    request: Request
    scores: bool = False


@dataclass(frozen=True)
class RenderedLine:
    """A line's translation as JSON, with the number of tokens of the best candidate."""

    content: bytes
    num_tokens: int

    @classmethod
    def of(cls, line: str, translation: Translation) -> "RenderedLine":
        """Returns a line's translation in the format of `/v1/`."""
        content = to_json(translation.as_json(line, with_warnings=True))
        return cls(content, len(translation.candidates[0].token_ids))


LineRequest = Request | RenderRequest
"""A line to translate, or one to score."""
LineResult = Translation | RenderedLine | LineFault

_MAX_ATTEMPTS = 2
"""Maximum attempts of a line whose process dies; a retry runs alone."""


class QueueFullError(Exception):
    """The queue has no room for a caller's lines."""


class Job:
    """A caller's lines, at least one.

    Attributes:
        done: Future of all answers, in the lines' order.
        queued_at: Arrival by the event loop's clock, in seconds.
    """

    def __init__(self, requests: Sequence[LineRequest]) -> None:
        loop = asyncio.get_running_loop()
        self.queued_at = loop.time()
        self.done: asyncio.Future[list[LineResult]] = loop.create_future()
        self._found: list[LineResult | None] = [None] * len(requests)
        self._num_missing = len(requests)
        self.waiting = deque(QueuedLine(self, index, ask) for index, ask in enumerate(requests))

    def answer(self, index: int, answer: LineResult) -> None:
        """Stores the answer to a line."""
        if self._found[index] is None:
            self._num_missing -= 1
        self._found[index] = answer
        if not self._num_missing and not self.done.done():
            self.done.set_result([each for each in self._found if each is not None])

    def fail(self, index: int, fault: LineFault) -> None:
        """Ends the job because of one line's error."""
        neighbours = replace(fault, is_of_neighbour=True)
        for other, found in enumerate(self._found):
            if found is None:
                self.answer(other, fault if other == index else neighbours)

    def is_short(self, max_characters: int) -> bool:
        """Checks that a line is waiting and has few characters."""
        return bool(self.waiting) and self.waiting[0].num_characters <= max_characters

    @property
    def is_wanted(self) -> bool:
        """Whether a caller still waits for it."""
        return not self.done.done()


@dataclass(eq=False)
class QueuedLine:
    """One line of a job; `attempts` counts the processes that died with it."""

    job: Job
    index: int
    ask: LineRequest
    attempts: int = 0

    @property
    def num_characters(self) -> int:
        """Length of text and prefix."""
        request = self.ask.request if isinstance(self.ask, RenderRequest) else self.ask
        return len(request.text) + len(request.prefix)

    def answer(self, answer: LineResult) -> None:
        """Stores the line's answer."""
        self.job.answer(self.index, answer)


class FairQueue:
    """Takes lines from jobs round-robin, so that a long job doesn't delay short ones.

    Unless it `mixes_jobs`, lines that are taken together are of one job.
    """

    def __init__(self, max_lines: int, *, mixes_jobs: bool = True) -> None:
        self._max_lines, self._mixes_jobs = max_lines, mixes_jobs
        self._jobs: OrderedDict[Job, None] = OrderedDict()
        self._suspects: deque[QueuedLine] = deque()
        self._num_lines = 0
        self._took_others = True

    def __len__(self) -> int:
        return self._num_lines + len(self._suspects)

    @property
    def has_suspects(self) -> bool:
        """Whether there are lines with which a process died."""
        return bool(self._suspects)

    @property
    def oldest(self) -> float | None:
        """Arrival of the oldest waiting job; None without any."""
        return min((job.queued_at for job in self._jobs), default=None)

    def add(self, job: Job) -> None:
        """Adds a job's lines; raises a QueueFullError unless they fit or the queue is empty."""
        if self._num_lines and self._num_lines + len(job.waiting) > self._max_lines:
            raise QueueFullError
        self._jobs[job] = None
        self._num_lines += len(job.waiting)

    def drop(self, job: Job) -> None:
        """Removes a job's remaining lines."""
        if job in self._jobs:
            del self._jobs[job]
            self._num_lines -= len(job.waiting)
        if self._suspects:
            self._suspects = deque(line for line in self._suspects if line.job is not job)

    def take(
        self, max_lines: int, max_characters: int, *, may_be_long: bool = True
    ) -> list[QueuedLine]:
        """Returns the next lines, within limits; a single line may have more characters.

        If not `may_be_long`, long lines stay and those of other jobs come first.
        """
        # Suspects and other lines alternate.
        if self._suspects and (self._took_others or not self._jobs):
            self._took_others = False
            return [self._suspects.popleft()]
        self._took_others = True
        taken: list[QueuedLine] = []
        num_characters = 0
        short = None
        if not may_be_long:
            short = dict.fromkeys(each for each in self._jobs if each.is_short(max_characters))
        while self._jobs and len(taken) < max_lines:
            job = next(iter(self._jobs if short is None else short), None)
            if job is None or (taken and not self._mixes_jobs and job is not taken[0].job):
                break
            num_characters += job.waiting[0].num_characters
            if taken and num_characters > max_characters:
                break
            taken.append(job.waiting.popleft())
            self._num_lines -= 1
            if not job.waiting:
                del self._jobs[job]
            elif self._mixes_jobs:
                self._jobs.move_to_end(job)
            if short is not None and (self._mixes_jobs or not job.is_short(max_characters)):
                del short[job]
                if job.is_short(max_characters):
                    short[job] = None
        if taken and taken[0].job in self._jobs:
            self._jobs.move_to_end(taken[0].job)
        return taken

    def put_back(self, lines: Sequence[QueuedLine]) -> None:
        """Requeues the lines of a process that died; each is retried once, alone."""
        for line in lines:
            line.attempts += 1
            if line.attempts < _MAX_ATTEMPTS:
                self._suspects.append(line)
            else:
                fault = "the translator stopped twice on this text"
                self.fail(line, LineFault(fault, is_fault_of_server=True))

    def fail(self, line: QueuedLine, fault: LineFault) -> None:
        """Ends a line's job: trying its other lines would be useless."""
        line.job.fail(line.index, fault)
        self.drop(line.job)
