"""Translated files go when their time is over, and leave nothing on a full disk."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mtkit.serving.request_errors import RequestError
from mtkit.serving.stored_files import FileStore


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def list_files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("mtkit-serve-*/*")]


def test_a_file_goes_without_another_request(folder: Path) -> None:
    async def main() -> None:
        store = FileStore(0.2 / 60, 1_000)
        address = await store.add(b"x", "a.txt")
        assert store.find(address) is not None
        assert list_files(folder) == [b"x"]
        async with asyncio.timeout(20):
            while list_files(folder):
                await asyncio.sleep(0.05)
        assert store.find(address) is None
        store.close()

    asyncio.run(main())


def test_a_write_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def fill(path: Path, content: bytes) -> int:
        write(path, content[:1])
        raise OSError(28, "No space left on device")

    async def main() -> None:
        store = FileStore(1.0, 1_000)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_bytes", fill)
            with pytest.raises(RequestError, match="no room") as fault:
                await store.add(b"xy", "a.txt")
        assert fault.value.status == 503
        assert list_files(folder) == []
        assert store.find(await store.add(b"xy", "a.txt")) is not None
        store.close()

    asyncio.run(main())


def test_a_folder_that_was_cleaned_is_made_again(folder: Path) -> None:
    async def main() -> None:
        store = FileStore(1.0, 1_000)
        old = await store.add(b"x", "a.txt")
        for each in folder.glob("mtkit-serve-*"):
            shutil.rmtree(each)
        new = await store.add(b"y", "a.txt")
        assert store.find(old) is None
        assert list_files(folder) == [b"y"]
        assert store.find(new) is not None
        store.close()
        assert list(folder.iterdir()) == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("\u0939\u093f\u0928\u094d\u0926\u0940.txt",) * 2,
        ("\u0e20\u0e32\u0e29\u0e32\u0e17\u0e35\u0e48.txt",) * 2,
        ("Re\u0301sume\u0301.txt", "R\u00e9sum\u00e9.txt"),
        ("../a b & c\r\n\u202e.txt", "_a_b_c_.txt"),
        ("...", "translation"),
    ],
)
def test_names_keep_letters_of_any_script(folder: Path, name: str, kept: str) -> None:
    async def main() -> None:
        store = FileStore(1.0, 10_000)
        found = store.find(await store.add(b"x", name))
        assert found is not None
        assert found.name == kept
        store.close()

    asyncio.run(main())


def test_the_oldest_make_room(folder: Path) -> None:
    async def main() -> None:
        store = FileStore(1.0, 10_000)
        await asyncio.gather(*(store.add(bytes([number] * 4_500), "a") for number in range(4)))
        assert len(list_files(folder)) == 2
        # Empty ones take a block each.
        for _ in range(10):
            await store.add(b"", "a")
        assert len(list_files(folder)) == 2
        store.close()

    asyncio.run(main())


def test_what_a_killed_server_left_goes_and_a_running_one_keeps_its_files(folder: Path) -> None:
    code = (
        "import asyncio, os, signal, sys, tempfile\n"
        "from mtkit.serving.stored_files import FileStore\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "async def main():\n"
        "    await FileStore(60, 1000).add(b'killed', 'a.txt')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )

    async def main() -> None:
        running = FileStore(1.0, 1_000)
        await running.add(b"running", "a.txt")
        done = subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert sorted(list_files(folder)) == [b"killed", b"running"]
        (folder / "other").mkdir()
        (folder / "mtkit-serve-link").symlink_to(folder / "other")
        FileStore(1.0, 1_000)
        assert list_files(folder) == [b"running"]
        running.close()
        assert sorted(path.name for path in folder.iterdir()) == ["mtkit-serve-link", "other"]

    asyncio.run(main())
