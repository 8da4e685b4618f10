import os
from pathlib import Path

import pytest

import mtkit.processors as processors_module
from mtkit.processors import count_processors


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", 6),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # one and a half: two threads use it up
        ("20000 100000\n", 1),
        ("1000000 100000\n", 6),
        ("nonsense", 6),
        (None, 6),
    ],
)
def test_a_container_s_quota_counts(tmp_path: Path, monkeypatch, content, expected) -> None:
    file = tmp_path / "cpu.max"
    if content is not None:
        file.write_text(content, encoding="ascii")
    monkeypatch.setattr(processors_module, "_QUOTA_FILE", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert count_processors() == expected
