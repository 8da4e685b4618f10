"""How waiting lines are shared out among the batches of a model's process."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mtkit.inference.translator import Translator
from mtkit.serving.app import make_context
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import ModelLoaded
from mtkit.serving.worker_process import WorkerDiedError, WorkerProcess

from .conftest import FakeWorker, make_model


def deal(workers: type[FakeWorker], num_lines: list[int], num_taken: int) -> list[int]:
    """Returns the sizes of the batches in which a process takes lines of so many callers."""

    async def main() -> list[int]:
        context = make_context([make_model("m")], Serving(log="none", batch_wait_milliseconds=300))
        await context.catalogue.services["m"].start()
        worker = workers.started[-1]
        worker.is_held = True
        translate = context.translation.translate_texts
        asked = [asyncio.create_task(translate(["a"] * each, "en", "de")) for each in num_lines]
        while sum(map(len, worker.batches)) < num_taken:
            await asyncio.sleep(0.01)
        sizes = [len(batch) for batch in worker.batches]
        worker.is_held = False
        worker.release()
        await asyncio.gather(*asked)
        await context.catalogue.close()
        return sizes

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("loaded", "num_lines", "sizes"),
    [
        # One that searches all lines together gets them all, and then another batch.
        (ModelLoaded(), [1] * 8, [8]),
        (ModelLoaded(), [100], [64, 36]),
        # Two threads that search side by side share them, four at least to each.
        (ModelLoaded(2, distributes_lines=True), [1] * 8, [4, 4]),
        (ModelLoaded(2, distributes_lines=True), [1] * 3, [3]),
        (ModelLoaded(2, distributes_lines=True), [50], [25, 25]),
        (ModelLoaded(2, distributes_lines=True), [300], [64, 64]),
        (ModelLoaded(4, distributes_lines=True), [20], [5, 5, 5, 5]),
        (ModelLoaded(4, distributes_lines=True), [6, 3], [4, 4, 1]),
    ],
)
def test_what_waits_is_dealt_out(
    workers: type[FakeWorker],
    monkeypatch: pytest.MonkeyPatch,
    loaded: ModelLoaded,
    num_lines: list[int],
    sizes: list[int],
) -> None:
    monkeypatch.setattr(workers, "loaded", loaded)
    assert deal(workers, num_lines, sum(sizes)) == sizes


@pytest.mark.parametrize(
    ("batches_at_once", "loaded"),
    [
        (1, ModelLoaded(2)),
        (4, ModelLoaded(2, distributes_lines=True)),
        (64, ModelLoaded(16, distributes_lines=True)),
    ],
)
def test_a_process_takes_a_batch_for_each_thread(batches_at_once: int, loaded: ModelLoaded) -> None:
    translator = Translator.__new__(Translator)
    translator.batches_at_once = batches_at_once
    assert ModelLoaded.of(translator) == loaded


def test_a_batch_for_a_pipe_that_is_closed_waits_for_the_death() -> None:
    class Closed:
        def write(self, _: bytes) -> None:
            # As uvloop says it.
            raise RuntimeError("unable to perform operation; the handler is closed")

    async def main() -> None:
        ended = asyncio.StreamReader()
        ended.feed_eof()

        async def wait() -> int:
            return -9

        process: Any = SimpleNamespace(stdin=Closed(), stdout=ended, wait=wait, pid=1)
        worker = WorkerProcess(process)
        answers = worker.work([])
        assert not answers.done()
        await worker._read_answers()
        with pytest.raises(WorkerDiedError, match="SIGKILL"):
            await answers

    asyncio.run(main())
