"""SIGTERM and SIGHUP while files come, are translated and are fetched: real signals and sockets."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from mtkit.serving.worker_process import WorkerProcess

from .conftest import FakeWorker, make_model
from .sockets import Running, wait_until

_FORM = (
    b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    b"a\n\nb\n\r\n--x--\r\n"
)


pytestmark = pytest.mark.text_processes


def read_files() -> list[psutil.Process]:
    """Returns the processes that read files; others for texts aren't set back."""
    return [
        child
        for child in psutil.Process().children()
        if any("text_main" in part for part in child.cmdline()) and child.nice()
    ]


def upload(body: bytes) -> bytes:
    return (
        b"POST /translate_file HTTP/1.1\r\nHost: a\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n"
        b"Content-Length: %d\r\n\r\n" % len(_FORM)
    ) + body


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_is_under_way_at_sigterm_is_finished(
    workers: type[FakeWorker], temporary: Path
) -> None:
    async def main() -> None:
        async with Running() as running:
            await wait_until(running.listens)
            workers.started[0].is_held = True
            half = len(_FORM) // 2
            slow = await running.connect(upload(_FORM[:half]))
            translated = await running.connect(upload(_FORM))
            quiet = await running.connect()
            content = os.urandom(20_000_000)
            address = await running.context.files.add(content, "b.txt")
            fetching = await running.connect(
                f"GET /download_file/{address} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
            )
            await fetching.reader.readuntil(b"\r\n\r\n")
            await wait_until(lambda: workers.started[0].batches)
            assert [*temporary.iterdir()]
            assert read_files()

            await running.end()
            assert await quiet.read() == b""
            slow.writer.write(_FORM[half:])
            workers.started[0].is_held = False
            workers.started[0].release()
            for answer in (await slow.read(), await translated.read()):
                assert answer.startswith(b"HTTP/1.1 200"), answer
                assert b"translatedFileUrl" in answer
            assert await fetching.read() == content
            await running.task
            assert [*temporary.iterdir()] == []
            assert not read_files()

    asyncio.run(main())


def test_what_takes_too_long_after_sigterm_is_ended(
    workers: type[FakeWorker], temporary: Path
) -> None:
    async def main() -> None:
        async with Running(shutdown_seconds=0.5) as running:
            await wait_until(running.listens)
            workers.started[0].is_held = True
            waiting = await running.connect(upload(_FORM))
            await running.context.files.add(b"x", "b.txt")
            await wait_until(lambda: workers.started[0].batches)
            await running.end()
            await running.task
            answer = await waiting.read()
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: " in answer
            assert [*temporary.iterdir()] == []
            assert not read_files()

    asyncio.run(main())


def test_sigterm_while_models_are_loaded(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        asked = []

        async def load(_: Any) -> None:
            asked.append(True)
            await asyncio.Event().wait()

        monkeypatch.setattr(WorkerProcess, "start", load)
        async with Running() as running:
            await wait_until(lambda: asked)
            # Nothing is loaded yet that could be loaded again.
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(30):
                await running.task

    asyncio.run(main())


def test_sighup_while_a_file_is_translated(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with Running() as running:
            await wait_until(running.listens)
            first = workers.started[0]
            first.is_held = True
            file = await running.connect(upload(_FORM))
            await wait_until(lambda: first.batches)
            opened = []
            model = make_model("new")

            def open_again(*_: Any) -> Any:
                opened.append(True)
                return model

            monkeypatch.setattr(type(model), "open", open_again)
            os.kill(os.getpid(), signal.SIGHUP)
            await wait_until(lambda: opened)
            # The folder changes again before it is loaded: that isn't lost.
            os.kill(os.getpid(), signal.SIGHUP)
            await wait_until(lambda: len(workers.started) == 3)
            first.release()
            head, _, body = (await file.reader.readuntil(b"}")).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), body
            [stored] = Path(tempfile.gettempdir()).glob("mtkit-serve-*/*")
            # What the old model had begun is of the old model.
            assert stored.read_text() == "m:A\n\nm:B\n"
            await running.end()
            await running.task

    asyncio.run(main())
