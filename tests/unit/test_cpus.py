import os
import subprocess
import sys
from pathlib import Path

import pytest

import mtkit.cpus as cpus_module
from mtkit.cpus import count_cpus, measure_load


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
    monkeypatch.setattr(cpus_module, "_QUOTA_FILE", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert count_cpus() == expected


def test_the_load_is_what_others_keep_busy_of_the_processors_allowed(
    tmp_path: Path, monkeypatch
) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice, as man 5 proc has it.
    readings = [
        "cpu  9 9 9 9 9 9 9 9 9 9\n"
        "cpu0 100 0 50 1000 10 0 0 0 0 0\n"
        "cpu1 200 0 50 1000 10 0 0 0 100 0\n"
        "cpu2 300 0 50 1000 10 0 0 0 0 0\n"
        "intr 1 2 3\n",
        # Processor 0: 30 of 40 busy; 1: idle, waiting for a disk; 2 isn't allowed.
        "cpu  9 9 9 9 9 9 9 9 9 9\n"
        "cpu0 120 0 55 1008 12 0 0 5 0 0\n"
        "cpu1 200 0 50 1030 20 0 0 0 100 0\n"
        "cpu2 400 0 50 1000 10 0 0 0 0 0\n"
        "intr 1 2 3\n",
    ]
    file = tmp_path / "stat"
    file.write_text(readings[0], encoding="ascii")
    monkeypatch.setattr(cpus_module, "_TIMES_FILE", file)
    monkeypatch.setattr(cpus_module, "_QUOTA_FILE", tmp_path / "none")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(
        cpus_module.time, "sleep", lambda _: file.write_text(readings[1], encoding="ascii")
    )
    assert measure_load() == pytest.approx(30 / 40)


@pytest.mark.parametrize("content", [None, "", "cpu0 x\n", "cpu0 1 2\n"])
def test_a_load_that_can_t_be_told_is_none(tmp_path: Path, monkeypatch, content) -> None:
    file = tmp_path / "stat"
    if content is not None:
        file.write_text(content, encoding="ascii")
    monkeypatch.setattr(cpus_module, "_TIMES_FILE", file)
    monkeypatch.setattr(cpus_module, "_QUOTA_FILE", tmp_path / "none")
    assert measure_load(0.0) == 0.0


def test_under_a_quota_the_load_is_other_containers_too(tmp_path: Path, monkeypatch) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("200000 100000\n", encoding="ascii")
    monkeypatch.setattr(cpus_module, "_QUOTA_FILE", quota)
    assert measure_load(0.0) == 0.0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts threads under Linux")
def test_numpy_is_loaded_without_threads_and_leaves_the_environment_alone() -> None:
    program = """
import os, sys
from mtkit.cpus import load_numpy
before = dict(os.environ)
load_numpy()
assert "numpy" in sys.modules and dict(os.environ) == before
print([line for line in open("/proc/self/status") if line.startswith("Threads:")])
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": ""}
    del environment["OPENBLAS_NUM_THREADS"]
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['Threads:\\t1\\n']\n"
