"""Programs are found where a shell finds them, but for the current folder."""

from pathlib import Path

import pytest

from mtkit.programs import find_program


def _make(folder: Path, *, mode: int = 0o755) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "some-program"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin", "../here/bin"])
def test_entries_that_are_not_absolute_are_left_out(tmp_path, monkeypatch, entry) -> None:
    here = tmp_path / "here"
    _make(here)
    _make(here / "bin")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", entry)
    assert find_program("some-program") is None
    expected = _make(tmp_path / "absolute")
    monkeypatch.setenv("PATH", f"{entry}:{tmp_path / 'absolute'}:{entry}")
    assert find_program("some-program") == expected


def test_the_first_that_can_be_run_is_taken(tmp_path, monkeypatch) -> None:
    _make(tmp_path / "first", mode=0o644)
    second = _make(tmp_path / "second")
    _make(tmp_path / "third")
    monkeypatch.setenv(
        "PATH", ":".join(str(tmp_path / name) for name in ("first", "second", "third"))
    )
    assert find_program("some-program") == second
