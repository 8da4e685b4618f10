import asyncio
from collections.abc import Callable

import pytest

from mtkit.inference.request import Request
from mtkit.serving.fair_queue import FairQueue, Job, QueueFullError
from mtkit.serving.request_errors import LineFault


def run(check: Callable[[], None]) -> None:
    async def main() -> None:
        check()

    asyncio.run(main())


def job(*texts: str) -> Job:
    return Job([Request(text) for text in texts])


def texts(queue: FairQueue, max_lines: int, max_characters: int = 1_000) -> list[str]:
    taken = queue.take(max_lines, max_characters)
    return [line.ask.text for line in taken if isinstance(line.ask, Request)]


def test_jobs_take_turns_line_by_line() -> None:
    def check() -> None:
        queue = FairQueue(100)
        queue.add(job("long 1", "long 2", "long 3", "long 4"))
        queue.add(job("short"))
        assert texts(queue, 3) == ["long 1", "short", "long 2"]
        assert texts(queue, 3) == ["long 3", "long 4"]
        assert len(queue) == 0
        assert queue.take(3, 10) == []

    run(check)


def test_a_batch_is_bounded_in_characters_but_holds_a_line() -> None:
    def check() -> None:
        queue = FairQueue(100)
        queue.add(job("x" * 50, "abc", "def", "ghi"))
        assert texts(queue, 9, 6) == ["x" * 50]
        assert texts(queue, 9, 6) == ["abc", "def"]
        assert texts(queue, 9, 6) == ["ghi"]

    run(check)


def test_a_full_queue_refuses_and_an_empty_one_takes_any_job() -> None:
    def check() -> None:
        queue = FairQueue(2)
        queue.add(job("a", "b", "c"))
        with pytest.raises(QueueFullError):
            queue.add(job("d"))
        queue.take(3, 100)
        queue.add(job("d"))

    run(check)


def test_a_dropped_job_leaves_nothing_behind() -> None:
    def check() -> None:
        queue = FairQueue(10)
        gone, stays = job("a", "b"), job("c")
        queue.add(gone)
        queue.add(stays)
        queue.put_back(queue.take(1, 100))
        assert len(queue) == 3
        queue.drop(gone)
        assert len(queue) == 1
        assert texts(queue, 5) == ["c"]

    run(check)


def test_lines_of_a_dead_process_are_tried_alone_and_once() -> None:
    def check() -> None:
        queue = FairQueue(10)
        both = job("bad", "good")
        queue.add(both)
        queue.put_back(queue.take(5, 100))
        [bad] = queue.take(5, 100)
        queue.put_back([bad])
        first, second = both.done.result()
        assert isinstance(first, LineFault)
        assert first.is_fault_of_server
        assert not first.is_of_neighbour
        # The request is answered: its other lines aren't tried in vain.
        assert isinstance(second, LineFault)
        assert second.is_of_neighbour
        assert len(queue) == 0

    run(check)


def test_lines_of_others_come_between_those_of_a_dead_process() -> None:
    def check() -> None:
        queue = FairQueue(10)
        queue.add(job("bad", "worse"))
        queue.put_back(queue.take(5, 100))
        queue.add(job("other"))
        assert [line.ask.text for line in queue.take(5, 100)] == ["bad"]
        assert [line.ask.text for line in queue.take(5, 100)] == ["other"]
        assert [line.ask.text for line in queue.take(5, 100)] == ["worse"]

    run(check)
