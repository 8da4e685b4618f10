"""Folders in a store: whole or not at all, whenever a process dies and whatever the store holds."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtkit import remote_files
from mtkit.errors import MtkitError
from mtkit.storage import Url
from mtkit.stored_folder import fetch_folder, put_changes, put_or_warn, working_copy
from mtkit.stored_listing import LISTING, is_plain

from ..stores import StoreDiedError, in_memory

URL = Url("gs://bucket/run")
OLD = {"a.txt": "old", "model/b.txt": "old b", "gone.txt": "gone", "same.txt": "same"}
NEW = {"a.txt": "new text", "model/b.txt": "new b", "model/c.txt": "c", "same.txt": "same"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(remote_files, "PAUSES", (0.0,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with in_memory("gs", "hf") as made:
        yield made


def write(folder: Path, files: dict[str, str]) -> None:
    for path in [each for each in folder.rglob("*") if each.is_file()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def read(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def put(files: dict[str, str], url: Url = URL) -> None:
    with working_copy(url) as folder:
        write(folder, files)


def on_another_machine(monkeypatch: pytest.MonkeyPatch, name: str = "other") -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", name)


def test_only_what_changed_is_transferred(store: Any, tmp_path: Path) -> None:
    put(OLD)
    listed = json.loads(store().cat_file(f"/bucket/run/{LISTING}"))["files"]
    assert listed["a.txt"]["sha256"] == hashlib.sha256(b"old").hexdigest()
    store.writes.clear()
    put(NEW)
    names = [each for each in store.writes if "same" in each]
    assert names == []
    assert sum(each.startswith("put_file") for each in store.writes) == 3
    assert not store().exists("/bucket/run/gone.txt")
    assert store().find("/bucket/run/.mtkit-pending") == []
    store.writes.clear()
    put(NEW)
    assert store.writes == []
    assert read(fetch_folder(URL)) == NEW
    # The objects also have the plain names, for other programs.
    assert store().cat_file("/bucket/run/a.txt") == b"new text"


def test_killed_at_any_write_readers_see_one_or_the_other(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, number = set(), 0
    while True:
        url = Url(f"gs://bucket/run{number}")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"writer{number}"))
        put(OLD, url)
        folder = fetch_folder(url)
        write(folder, NEW)
        store.writes.clear()
        store.dies_at = number
        try:
            put_changes(folder)
            is_over = True
        except StoreDiedError:
            is_over = False
        store.dies_at = None
        on_another_machine(monkeypatch, str(tmp_path / f"reader{number}"))
        found = read(fetch_folder(url))
        assert found in (OLD, NEW)
        seen.add("new" if found == NEW else "old")
        # The same command again, on the first machine.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"writer{number}"))
        put(NEW, url)
        on_another_machine(monkeypatch, str(tmp_path / f"second{number}"))
        assert read(fetch_folder(url)) == NEW
        if is_over:
            break
        number += 1
    assert seen == {"old", "new"}
    assert number > 8


def test_a_first_upload_that_is_killed_is_no_folder(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.dies_at = 3
    with pytest.raises(StoreDiedError):
        put(OLD)
    store.dies_at = None
    with monkeypatch.context() as patch:
        on_another_machine(patch, str(tmp_path / "other"))
        with pytest.raises(MtkitError, match=r"gs://bucket/run: incomplete upload") as caught:
            fetch_folder(URL)
        assert "again" in caught.value.hint
    put(OLD)
    assert read(fetch_folder(URL)) == OLD


@pytest.mark.parametrize("content", [b"ol", b"bad"])
def test_a_short_or_mixed_file_is_an_error(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    put(OLD)
    store().pipe_file("/bucket/run/a.txt", content)
    on_another_machine(monkeypatch, str(tmp_path / "other"))
    with pytest.raises(MtkitError, match=r"gs://bucket/run/a\.txt: \d bytes that differ from"):
        fetch_folder(URL)
    store().rm_file("/bucket/run/a.txt")
    with pytest.raises(MtkitError, match=r"gs://bucket/run/a\.txt: no such object"):
        fetch_folder(URL)
    store().pipe_file("/bucket/run/a.txt", b"old")
    assert read(fetch_folder(URL)) == OLD


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "/etc/a",
        "a/../../b",
        "",
        ".",
        "a//b",
        ".ssh/a",
        "a\\b",
        "a\nb",
        "a/./b",
        "x" * 2_000,
    ],
)
def test_hostile_names_are_rejected(store: Any, tmp_path: Path, name: str) -> None:
    assert not is_plain(name)
    put(OLD)
    listing = json.loads(store().cat_file(f"/bucket/run/{LISTING}"))
    listing["files"][name] = {"size": 3, "sha256": hashlib.sha256(b"old").hexdigest()}
    store().pipe_file(f"/bucket/run/{LISTING}", json.dumps(listing).encode())
    with pytest.raises(MtkitError, match="the listing has an invalid entry"):
        fetch_folder(URL)


@pytest.mark.parametrize(
    "entry",
    [
        {"size": -1},
        {"size": "3"},
        {"size": 3, "sha256": "../../a"},
        {"size": 3, "sha256": 7},
        {"size": 3, "other": 1},
        {"sha256": ""},
        7,
    ],
)
def test_hostile_entries_are_rejected(store: Any, entry: object) -> None:
    put(OLD)
    listing = json.loads(store().cat_file(f"/bucket/run/{LISTING}"))
    listing["files"]["a.txt"] = entry
    for content in (json.dumps(listing), "[" * 100_000, "7", json.dumps({"format_version": 9})):
        store().pipe_file(f"/bucket/run/{LISTING}", content.encode())
        with pytest.raises(MtkitError):
            fetch_folder(URL)


def test_a_folder_without_a_listing(store: Any) -> None:
    for name, text in OLD.items():
        store().pipe_file(f"/bucket/run/{name}", text.encode())
    store().pipe_file("/bucket/run/.hidden", b"x")
    assert read(fetch_folder(URL)) == OLD
    store().pipe_file("/bucket/run/a.txt", b"newer")
    assert read(fetch_folder(URL)) == OLD | {"a.txt": "newer"}
    with pytest.raises(MtkitError, match=r"gs://bucket/none: no such folder"):
        fetch_folder(Url("gs://bucket/none"))


def test_parts_and_folders_inside(store: Any, tmp_path: Path, monkeypatch) -> None:
    put(OLD | {"data/large": "large"})
    on_another_machine(monkeypatch, str(tmp_path / "other"))
    with working_copy(URL, ("model",)) as folder:
        assert read(folder) == OLD
        (folder / "added.txt").write_text("added")
    assert read(fetch_folder(Url(f"{URL}/model"))) == {"b.txt": "old b"}
    # What wasn't fetched is still there.
    assert read(fetch_folder(URL)) == OLD | {"data/large": "large", "added.txt": "added"}


def test_it_is_put_back_after_an_error(store: Any, tmp_path: Path, monkeypatch) -> None:
    def interrupted() -> None:
        with working_copy(URL) as folder:
            write(folder, OLD)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    on_another_machine(monkeypatch, str(tmp_path / "other"))
    assert read(fetch_folder(URL)) == OLD


def test_changes_on_two_machines(store: Any, tmp_path: Path, monkeypatch, capsys) -> None:
    put(OLD)
    folder = fetch_folder(URL)
    with monkeypatch.context() as patch:
        on_another_machine(patch, str(tmp_path / "other"))
        put(NEW)
    (folder / "a.txt").write_text("mine")
    for work in (put_changes, lambda _: fetch_folder(URL)):
        with pytest.raises(MtkitError, match="was changed by another process") as caught:
            work(folder)
        assert f"remove {folder.parent}" in caught.value.hint
    put_or_warn(folder)
    assert f"what isn't uploaded yet is kept in {folder}" in capsys.readouterr().err
    assert (folder / "a.txt").read_text() == "mine"


def test_an_output_must_be_new(store: Any) -> None:
    put(OLD)
    with (
        pytest.raises(MtkitError, match=r"gs://bucket/run: already exists"),
        working_copy(URL, is_new=True),
    ):
        pass
    with working_copy(Url("gs://bucket/new"), is_new=True) as folder:
        write(folder, NEW)
    assert read(fetch_folder(Url("gs://bucket/new"))) == NEW


def test_the_cache_is_bounded(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [Url(f"gs://bucket/{name}") for name in "abc"]
    for url in urls:
        for part in range(2):
            store().pipe_file(f"{url.removeprefix('gs:/')}/{part}", bytes(500))
    monkeypatch.setenv("MTKIT_CACHE_BYTES", "2500")
    # In use until the process ends, which the test doesn't wait for.
    monkeypatch.setattr("mtkit.stored_folder._hold", lambda entry: None)
    first, second = map(fetch_folder, urls[:2])
    assert fetch_folder(urls[0]) == first
    third = fetch_folder(urls[2])
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    # What isn't in the store yet stays.
    (first / "0").write_bytes(bytes(400))
    assert fetch_folder(urls[2]) == third
    second = fetch_folder(urls[1])
    assert (first.exists(), second.exists(), third.exists()) == (True, True, False)
    monkeypatch.setenv("MTKIT_CACHE_BYTES", "900")
    with pytest.raises(MtkitError, match="the cache's limit of") as caught:
        fetch_folder(urls[2])
    assert "MTKIT_CACHE_BYTES=" in caught.value.hint
    monkeypatch.setenv("MTKIT_CACHE_BYTES", "many")
    with pytest.raises(MtkitError, match="expected a number of bytes"):
        fetch_folder(urls[2])


def test_a_copy_in_use_stays(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        store().pipe_file(f"/bucket/{name}/0", bytes(1_000))
    monkeypatch.setenv("MTKIT_CACHE_BYTES", "1500")
    folder = fetch_folder(Url("gs://bucket/a"))
    with pytest.raises(MtkitError, match="the cache's limit of"):
        fetch_folder(Url("gs://bucket/b"))
    assert folder.exists()


def test_folders_on_disk_stay_where_they_are(tmp_path: Path) -> None:
    with working_copy(tmp_path) as folder:
        assert folder == tmp_path
    assert fetch_folder(tmp_path) == tmp_path
    put_changes(tmp_path)
    assert list(tmp_path.iterdir()) == []
