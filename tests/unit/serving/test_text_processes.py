"""Processes for strangers' texts: what takes too long or too much ends, and others are done."""

import asyncio
import re
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from mtkit.serving.request_errors import RequestError
from mtkit.serving.text_main import ProcessLimits
from mtkit.serving.text_process import FairSemaphore, ProcessPool
from mtkit.serving.text_tasks import AskServer

pytestmark = pytest.mark.text_processes
_MEMORY = 512 << 20


@dataclass(frozen=True)
class Hang:
    """Holds the interpreter's lock, as an expression does that takes exponential time."""

    def run(self, _: AskServer) -> None:
        re.match(r"(a|a)*b", "a" * 40)


@dataclass(frozen=True)
class Note:
    """Notes that it runs, asks, and returns the answer."""

    path: Path
    seconds: float = 0.0

    def run(self, ask: AskServer) -> Any:
        with self.path.open("a") as stream:
            stream.write("run\n")
        time.sleep(self.seconds)
        return ask("a question")


@dataclass(frozen=True)
class NoteBoth(Note):
    """Notes its end, too."""

    def run(self, ask: AskServer) -> Any:
        with self.path.open("a") as stream:
            stream.write("run\n")
        time.sleep(self.seconds)
        with self.path.open("a") as stream:
            stream.write("end\n")
        return ask("a question")


@dataclass(frozen=True)
class Allocate:
    num_bytes: int

    def run(self, _: AskServer) -> int:
        return len(bytes(self.num_bytes))


@dataclass(frozen=True)
class Fail:
    text: str

    def run(self, _: AskServer) -> None:
        raise KeyError(self.text)


async def answer(question: Any) -> str:
    return f"answer to {question}"


def run(work: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(main())


def test_a_task_that_hangs_ends_and_the_others_are_done_again(tmp_path: Path) -> None:
    async def main() -> None:
        pool = ProcessPool("texts", ProcessLimits(4, _MEMORY), 1)
        noted = tmp_path / "noted"
        # Imports are done before the time is short.
        await pool.run(Note(noted), "a", answer, seconds=30)
        hanging = asyncio.create_task(pool.run(Hang(), "a", seconds=1))
        other = asyncio.create_task(pool.run(Note(noted, 1.5), "b", answer, seconds=30))
        with pytest.raises(RequestError, match="too much time"):
            await hanging
        assert await other == "answer to a question"
        assert noted.read_text().count("run") >= 2
        assert await pool.run(Note(noted), "a", answer, seconds=30) == "answer to a question"
        await pool.close()

    run(main())


def find_processes() -> list[psutil.Process]:
    """The children that work on texts: a test may have others."""
    children = psutil.Process().children()
    return [each for each in children if "text_main" in " ".join(each.cmdline())]


def test_a_process_that_dies_says_nothing_of_its_tasks(tmp_path: Path) -> None:
    async def main() -> None:
        for num_tasks in (1, 4):
            pool = ProcessPool("texts", ProcessLimits(num_tasks, _MEMORY), 1)
            noted = tmp_path / f"noted {num_tasks}"
            await pool.run(Note(noted), "a", answer, seconds=30)
            running = asyncio.create_task(pool.run(Note(noted, 0.5), "a", answer, seconds=30))
            while noted.read_text() != "run\n" * 2:
                await asyncio.sleep(0.01)
            [process] = find_processes()
            process.kill()
            assert await running == "answer to a question"
            await pool.close()

    run(main())


def test_a_task_of_too_much_memory_ends_alone(tmp_path: Path) -> None:
    async def main() -> None:
        pool = ProcessPool("texts", ProcessLimits(2, _MEMORY), 1)
        with pytest.raises(RequestError, match="too much memory"):
            await pool.run(Allocate(2 * _MEMORY), "a", seconds=30)
        assert await pool.run(Allocate(_MEMORY // 4), "a", seconds=30) == _MEMORY // 4
        await pool.close()

    run(main())


def test_a_bug_is_told_without_the_text(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        pool = ProcessPool("texts", ProcessLimits(2, _MEMORY), 1)
        with pytest.raises(RequestError, match="internal error") as fault:
            await pool.run(Fail("a secret text"), "a", seconds=30)
        assert fault.value.status == 500
        await pool.close()

    run(main())
    printed = capfd.readouterr().err
    assert "KeyError" in printed
    assert "secret" not in printed


def test_what_an_answer_raises_ends_the_task(tmp_path: Path) -> None:
    async def refuse(_: Any) -> None:
        raise RequestError(503, "full")

    async def main() -> None:
        for num_tasks in (1, 2):
            pool = ProcessPool("texts", ProcessLimits(num_tasks, _MEMORY), 1)
            with pytest.raises(RequestError, match="full"):
                await pool.run(Note(tmp_path / "noted"), "a", refuse, seconds=30)
            found = await pool.run(Note(tmp_path / "noted"), "a", answer, seconds=30)
            assert found == "answer to a question"
            await pool.close()

    run(main())


def test_who_leaves_keeps_the_turn_until_the_task_has_ended(tmp_path: Path) -> None:
    async def main() -> None:
        pool = ProcessPool("texts", ProcessLimits(2, _MEMORY), 1)
        noted = tmp_path / "noted"
        left = [
            asyncio.create_task(pool.run(NoteBoth(noted, 1.0), "a", answer, seconds=30))
            for _ in range(2)
        ]
        while not noted.exists() or noted.read_text() != "run\n" * 2:
            await asyncio.sleep(0.01)
        for each in left:
            each.cancel()
        assert await pool.run(NoteBoth(noted), "a", answer, seconds=30) == "answer to a question"
        # Both places were taken: the third began when one of the two had ended.
        assert noted.read_text().split()[:3] == ["run", "run", "end"]
        await pool.close()

    run(main())


def test_callers_take_turns() -> None:
    async def main() -> None:
        turns = FairSemaphore(1)
        order: list[str] = []

        async def work(caller: str) -> None:
            await turns.take(caller)
            order.append(caller)
            await asyncio.sleep(0.01)
            turns.give_back(caller)

        async with asyncio.TaskGroup() as group:
            for caller in "aaaabc":
                group.create_task(work(caller))
        # One place, and one for who has none; then in turn.
        assert order == ["a", "b", "c", "a", "a", "a"]

    run(main())


def test_who_stops_waiting_takes_no_turn() -> None:
    async def main() -> None:
        turns = FairSemaphore(1)
        await turns.take("a")
        waiting = asyncio.create_task(turns.take("a"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        turns.give_back("a")
        await asyncio.wait_for(turns.take("c"), 1)

    run(main())
