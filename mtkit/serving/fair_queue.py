"""Lines of several callers, taken in fair turns."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.inference.request import Request
from mtkit.inference.translation import Translation
from mtkit.serving.faults import LineFault
from mtkit.serving.rendering import to_json


@dataclass(frozen=True)
class ToRender:
    """A line whose answer is sent as it is, so that the model's process makes JSON of it.

    Attributes:
        request: The line.
        scores: Whether its prefix is its translation, to be scored.
    """

    request: Request
    scores: bool = False


@dataclass(frozen=True)
class Rendered:
    """A line's translation as JSON.

    Attributes:
        content: The JSON.
        num_tokens: Of the best candidate.
    """

    content: bytes
    num_tokens: int

    @classmethod
    def of(cls, line: str, translation: Translation) -> "Rendered":
        """Returns a line's translation as our own API has it."""
        content = to_json(translation.as_json(line, with_warnings=True))
        return cls(content, len(translation.candidates[0].token_ids))


Ask = Request | ToRender
"""A line to translate, or one to score."""
Answer = Translation | Rendered | LineFault

_MAX_ATTEMPTS = 2
"""Times that a line is given to a model whose process dies; from the second on it is alone."""


class QueueFullError(Exception):
    """There is no room for a caller's lines."""


class Job:
    """A caller's lines.

    Args:
        asks: The lines, at least one.

    Attributes:
        done: Becomes all answers, in the lines' order.
        queued_at: When it came, by the event loop's clock, in seconds.
    """

    def __init__(self, asks: Sequence[Ask]) -> None:
        loop = asyncio.get_running_loop()
        self.queued_at = loop.time()
        self.done: asyncio.Future[list[Answer]] = loop.create_future()
        self._found: list[Answer | None] = [None] * len(asks)
        self._num_missing = len(asks)
        self.waiting = deque(Line(self, index, ask) for index, ask in enumerate(asks))

    def answer(self, index: int, answer: Answer) -> None:
        """Takes the answer to a line."""
        if self._found[index] is None:
            self._num_missing -= 1
        self._found[index] = answer
        if not self._num_missing and not self.done.done():
            self.done.set_result([each for each in self._found if each is not None])

    def fail(self, index: int, fault: LineFault) -> None:
        """Takes the fault that ends the job, of a line of it."""
        neighbours = replace(fault, is_of_neighbour=True)
        for other, found in enumerate(self._found):
            if found is None:
                self.answer(other, fault if other == index else neighbours)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return not self.done.done()


@dataclass(eq=False)
class Line:
    """One line of a job.

    Attributes:
        job: Whose it is.
        index: Its position in the job.
        ask: What is asked.
        attempts: Times that a process died with it.
    """

    job: Job
    index: int
    ask: Ask
    attempts: int = 0

    @property
    def num_characters(self) -> int:
        """Length of what is asked."""
        request = self.ask.request if isinstance(self.ask, ToRender) else self.ask
        return len(request.text) + len(request.prefix)

    def answer(self, answer: Answer) -> None:
        """Takes the line's answer."""
        self.job.answer(self.index, answer)


class FairQueue:
    """Gives each job a line's turn after the other, so that a long one holds up no short one.

    Args:
        max_lines: Lines that may wait.
    """

    def __init__(self, max_lines: int) -> None:
        self._max_lines = max_lines
        self._jobs: OrderedDict[Job, None] = OrderedDict()
        self._suspects: deque[Line] = deque()
        self._num_lines = 0
        self._took_others = True

    def __len__(self) -> int:
        """Returns how many lines wait."""
        return self._num_lines + len(self._suspects)

    @property
    def has_suspects(self) -> bool:
        """Whether lines wait with which a process died."""
        return bool(self._suspects)

    @property
    def oldest(self) -> float | None:
        """When the first of the waiting jobs came; None without any."""
        return min((job.queued_at for job in self._jobs), default=None)

    def add(self, job: Job) -> None:
        """Puts a job's lines into the queue.

        Raises:
            QueueFullError: They and those that wait are too many, and there are some that wait.
        """
        if self._num_lines and self._num_lines + len(job.waiting) > self._max_lines:
            raise QueueFullError
        self._jobs[job] = None
        self._num_lines += len(job.waiting)

    def drop(self, job: Job) -> None:
        """Takes a job's lines out of the queue, if there are any left."""
        if job in self._jobs:
            del self._jobs[job]
            self._num_lines -= len(job.waiting)
        if self._suspects:
            self._suspects = deque(line for line in self._suspects if line.job is not job)

    def take(self, max_lines: int, max_characters: int, *, may_be_long: bool = True) -> list[Line]:
        """Returns the lines whose turn it is; none if none wait.

        Args:
            max_lines: Max lines.
            max_characters: Max characters of them, unless it is one line.
            may_be_long: Whether one line may have more; lines of other jobs come before it if not.
        """
        # Suspects and others take turns.
        if self._suspects and (self._took_others or not self._jobs):
            self._took_others = False
            return [self._suspects.popleft()]
        self._took_others = True
        taken: list[Line] = []
        num_characters = 0
        while self._jobs and len(taken) < max_lines:
            job = next(iter(self._jobs)) if may_be_long else self._find_short(max_characters)
            if job is None:
                break
            num_characters += job.waiting[0].num_characters
            if taken and num_characters > max_characters:
                break
            taken.append(job.waiting.popleft())
            self._num_lines -= 1
            if job.waiting:
                self._jobs.move_to_end(job)
            else:
                del self._jobs[job]
        return taken

    def _find_short(self, max_characters: int) -> Job | None:
        """Returns the first job whose next line isn't long."""
        return next(
            (job for job in self._jobs if job.waiting[0].num_characters <= max_characters), None
        )

    def put_back(self, lines: Sequence[Line]) -> None:
        """Takes lines with which a process died; each is tried once more, by itself."""
        for line in lines:
            line.attempts += 1
            if line.attempts < _MAX_ATTEMPTS:
                self._suspects.append(line)
            else:
                line.job.fail(
                    line.index,
                    LineFault("the translator stopped twice at this text", is_fault_of_server=True),
                )
                # Others of its job are answered with it, so that none is tried for nothing.
                self.drop(line.job)
