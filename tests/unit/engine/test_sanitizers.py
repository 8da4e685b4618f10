"""The engine under the sanitizers of its compiler, with every option, as Python calls it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.engine import library

from .compiling import FOLDER, compile_engine

pytestmark = [
    pytest.mark.patient,
    pytest.mark.skipif(sys.platform != "linux", reason="preloads libraries as Linux does"),
]

_FAULTY = """
import ctypes, sys, threading
from ctypes import c_int64, c_void_p
import numpy as np
library = ctypes.CDLL(sys.argv[1])
library.mtkit_new_linear.restype = c_void_p
weight = np.ones((64, 8), np.float32)
new = b"fp32", c_int64(64), c_int64(8), c_void_p(weight.ctypes.data), None
linear = c_void_p(library.mtkit_new_linear(*new))
rows, outputs = np.ones((999, 8), np.float32), np.empty((999, 64), np.float32)
given = c_void_p(rows.ctypes.data), c_int64(NUM_ROWS), c_void_p(outputs.ctypes.data), 1
def apply():
    for _ in range(20):
        library.mtkit_apply_linear(linear, *given)
threads = [threading.Thread(target=apply) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
"""Writes to the same outputs from two threads; or reads behind the rows that there are."""


def find_runtime(name: str) -> str:
    """Returns the path of a library of g++; skips the test without it."""
    found = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"g++ has no {name}")
    return found


def run_under(sanitizer: str, runtimes: list[str], folder: Path, program: Path) -> str:
    """Runs a program with a library compiled with a sanitizer; returns all that it prints."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    preloaded = [find_runtime(name) for name in (*runtimes, "libstdc++.so.6")]
    options = [
        "-fPIC",
        "-shared",
        "-g",
        f"-fsanitize={sanitizer}",
        "-fno-sanitize-recover=undefined",
    ]
    compiled = compile_engine("g++", library.FOLDER / "engine.cpp", folder / "plain.so", options)
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(preloaded),
        # Python frees little at its end, and numpy's threads aren't compiled with the sanitizer.
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "exitcode=66 ignore_noninstrumented_modules=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    # ThreadSanitizer needs addresses that newer kernels draw elsewhere.
    command = [*_without_random_addresses(), sys.executable, str(program), str(compiled)]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=3600
    )
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed[-6000:]
    return printed


def _without_random_addresses() -> list[str]:
    command = ["setarch", "-R"]
    if shutil.which("setarch") is None:
        return []
    allowed = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if allowed.returncode == 0 else []


@pytest.mark.parametrize(
    ("sanitizer", "runtimes"),
    [
        ("address,undefined", ["libasan.so", "libubsan.so"]),
        ("thread", ["libtsan.so"]),
    ],
    ids=["address", "thread"],
)
def test_the_workload_has_no_reports(sanitizer: str, runtimes: list[str], tmp_path: Path) -> None:
    printed = run_under(sanitizer, runtimes, tmp_path, FOLDER / "workload.py")
    for report in ("runtime error:", "AddressSanitizer", "ThreadSanitizer"):
        assert report not in printed


@pytest.mark.parametrize(
    ("sanitizer", "runtimes", "fault"),
    [
        ("address,undefined", ["libasan.so", "libubsan.so"], "heap-buffer-overflow"),
        ("thread", ["libtsan.so"], "data race"),
    ],
    ids=["address", "thread"],
)
def test_a_fault_would_be_reported(
    sanitizer: str, runtimes: list[str], fault: str, tmp_path: Path
) -> None:
    program = tmp_path / "faulty.py"
    num_rows = 999 if fault == "data race" else 9_999
    program.write_text(_FAULTY.replace("NUM_ROWS", str(num_rows)))
    with pytest.raises(AssertionError, match=fault):
        run_under(sanitizer, runtimes, tmp_path, program)
