import os
from pathlib import Path

import pytest
import torch

import mtkit.training.processor as processor_module
from mtkit.training.processor import count_processors, settle_threads


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
    monkeypatch.setattr(processor_module, "_QUOTA_FILE", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert count_processors() == expected


def test_threads_are_lowered_to_the_processors_unless_a_number_is_given(monkeypatch) -> None:
    threads = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(processor_module, "count_processors", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    settle_threads()
    assert threads == []
    monkeypatch.delenv("OMP_NUM_THREADS")
    settle_threads()
    assert threads == [4]
