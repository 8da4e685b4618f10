"""Models' processes that hang, die or fail: who is blamed, and what is started again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.inference.search_parts import check_finite
from mtkit.inference.translation import Hypothesis, Translation
from mtkit.recipe.inference import Inference
from mtkit.serving import model_service
from mtkit.serving.app import make_context
from mtkit.serving.context import ServerContext
from mtkit.serving.fair_queue import RenderedLine, RenderRequest
from mtkit.serving.request_errors import LineFault, RequestError
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import answer_batch

from .conftest import FakeWorker, make_model, request_of


class Hanging(FakeWorker):
    """Never answers a batch with a line that hangs."""

    def release(self) -> None:
        if not any("HANG" in request_of(ask).text for _, asks in self._running for ask in asks):
            super().release()


@pytest.fixture
def hanging(workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(source: Any) -> FakeWorker:
        worker = Hanging(source)
        workers.started.append(worker)
        return worker

    monkeypatch.setattr(model_service.WorkerProcess, "start", start)


def run(act: Callable[[ServerContext], Coroutine[Any, Any, None]], **limits: Any) -> None:
    async def main() -> None:
        context = make_context([make_model("m")], Serving(log="none", **limits))
        try:
            async with asyncio.timeout(30):
                await context.catalogue.start()
                await act(context)
        finally:
            await context.catalogue.close()

    asyncio.run(main())


async def ask(context: ServerContext, *texts: str) -> list[str]:
    translated, _ = await context.translation.translate_texts(texts, "en", "de")
    return translated.texts


def test_a_batch_that_hangs_is_ended_and_its_line_named(
    workers: type[FakeWorker], hanging: None
) -> None:
    async def act(context: ServerContext) -> None:
        good = asyncio.create_task(ask(context, "a", "b"))
        bad = asyncio.create_task(ask(context, "c", "HANG"))
        await asyncio.sleep(0.3)
        # Its process is gone, and another isn't there yet.
        assert not context.catalogue.is_ready or len(workers.started) > 1
        with pytest.raises(RequestError) as fault:
            await bad
        assert (fault.value.status, fault.value.line) == (500, 2)
        assert await good == ["m:A", "m:B"]
        assert await ask(context, "d") == ["m:D"]
        # All together, then each alone, up to the one that hangs.
        sizes = [len(batch) for worker in workers.started for batch in worker.batches]
        assert sizes == [4, 1, 1, 1, 1, 1]

    run(act, batch_seconds=0.2, batch_wait_milliseconds=20)


def test_it_is_not_ready_while_a_process_is_replaced(
    workers: type[FakeWorker], hanging: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(context: ServerContext) -> None:
        may_start = asyncio.Event()
        start = model_service.WorkerProcess.start

        async def start_late(source: Any) -> Any:
            await may_start.wait()
            return await start(source)

        monkeypatch.setattr(model_service.WorkerProcess, "start", start_late)
        waiting = asyncio.create_task(ask(context, "HANG"))
        while context.catalogue.is_ready:
            await asyncio.sleep(0.01)
        may_start.set()
        with pytest.raises(RequestError):
            await waiting
        while not context.catalogue.is_ready:
            await asyncio.sleep(0.01)

    run(act, batch_seconds=0.1)


def test_a_line_is_tried_alone_while_another_may_kill(workers: type[FakeWorker]) -> None:
    async def act(context: ServerContext) -> None:
        texts = ["a", "KILL", "b"]
        tasks = [asyncio.create_task(ask(context, text)) for text in texts]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in found if not isinstance(each, Exception)] == [["m:A"], ["m:B"]]
        assert isinstance(found[1], RequestError)
        assert found[1].status == 500

    run(act, batch_wait_milliseconds=20)


def test_processes_that_die_again_and_again_are_started_with_pauses(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds >= 1:
            pauses.append(seconds)
        await sleep(0)

    async def act(context: ServerContext) -> None:
        for number in range(7):
            while len(workers.started) == number:
                await sleep(0)
            workers.started[number].die()
        while len(workers.started) == 7:
            await sleep(0)
        # Loading isn't enough: four ended without an answer.
        assert pauses == pytest.approx([2.0, 4.0, 8.0, 16.0], rel=0.05)
        assert await ask(context, "a") == ["m:A"]
        workers.started[-1].die()
        while len(workers.started) == 8:
            await sleep(0)
        assert len(pauses) == 4

    monkeypatch.setattr(model_service.asyncio, "sleep", note)
    run(act)


def start_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the next processes take a moment to load their model."""
    start = model_service.WorkerProcess.start

    async def sleep_and_start(source: Any) -> Any:
        await asyncio.sleep(0.05)
        return await start(source)

    monkeypatch.setattr(model_service.WorkerProcess, "start", sleep_and_start)


def test_a_death_under_a_limit_of_memory_leaves_one_process(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(context: ServerContext) -> None:
        start_slowly(monkeypatch)
        for number in range(1, 4):
            workers.started[-1].die()
            await asyncio.sleep(0.01)
            assert await ask(context, "a") == ["m:A"]
            assert len(workers.started) == number + 1
            assert sum(not worker.death.done() for worker in workers.started) == 1

    run(act, memory_gib=4.0)


def test_a_load_goes_on_when_its_first_caller_leaves(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(context: ServerContext) -> None:
        start_slowly(monkeypatch)
        first, second = (asyncio.create_task(ask(context, text)) for text in "ab")
        await asyncio.sleep(0.02)
        first.cancel()
        assert await second == ["m:B"]
        assert len(workers.started) == 1

    run(act, memory_gib=4.0, load="first-use")


@pytest.mark.parametrize("error", [MtkitError("damaged"), PermissionError(13, "Permission denied")])
def test_a_model_that_does_not_load_is_tried_a_few_times_and_then_with_pauses(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    num_tries = 0

    async def fail(source: Any) -> Any:
        nonlocal num_tries
        num_tries += 1
        raise error

    async def act(context: ServerContext) -> None:
        monkeypatch.setattr(model_service.WorkerProcess, "start", fail)
        for _ in range(8):
            with pytest.raises(RequestError) as no:
                await ask(context, "a")
            assert no.value.status == 503
        assert num_tries == 4

    run(act, memory_gib=4.0, load="first-use")
    assert not workers.started


def test_a_bug_at_a_line_is_that_lines_alone(capsys: pytest.CaptureFixture[str]) -> None:
    class Translator:
        settings = None

        def search(self, requests: list[Request], *, warns: bool) -> list[Translation]:
            if any("bug" in request.text for request in requests):
                raise TypeError("bug at a secret text")
            found = Hypothesis((5,), -1.0, -1.0, is_finished=True, text="x")
            return [Translation((found,)) for _ in requests]

    asks = [Request("a"), Request("bug"), RenderRequest(Request("b"))]
    first, second, third = answer_batch(Translator(), asks)  # type: ignore[arg-type]
    assert isinstance(first, Translation)
    assert second == LineFault("internal error", is_fault_of_server=True)
    assert isinstance(third, RenderedLine)
    assert third.num_tokens == 1
    printed = capsys.readouterr().err
    assert "TypeError" in printed
    assert "in search" in printed
    assert "secret text" not in printed.replace('raise TypeError("bug at a secret text")', "")


def test_a_broken_model_is_no_fault_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    class Translator:
        settings = None

        def search(self, requests: list[Request], *, warns: bool) -> list[Translation]:
            nothing: list[Hypothesis] = []
            check_finite(nothing, Inference(), 1)
            raise AssertionError

    [found] = answer_batch(Translator(), [Request("a")])  # type: ignore[arg-type]
    assert found == LineFault("the model is broken", is_fault_of_server=True)
    assert "the model's probabilities are NaN" in capsys.readouterr().err


def test_a_long_line_leaves_a_place_for_others(workers: type[FakeWorker]) -> None:
    async def act(context: ServerContext) -> None:
        worker = workers.started[0]
        worker.is_held = True
        long = [asyncio.create_task(ask(context, letter * 200)) for letter in "ab"]
        while len(worker.batches) < 1:
            await asyncio.sleep(0)
        short = asyncio.create_task(ask(context, "c"))
        while len(worker.batches) < 2:
            await asyncio.sleep(0.001)
        assert [[each.text[0] for each in batch] for batch in worker.batches] == [["a"], ["c"]]
        worker.is_held = False
        worker.release()
        assert await short == ["m:C"]
        assert [len(text) for task in long for text in await task] == [202, 202]

    run(act, batch_characters=100)
