"""The engine on CPUs that this machine may not have, under QEMU."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .compiling import FOLDER, compile_engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64", reason="compares with x86-64"
    ),
]
# Compiling takes most of the time, and half as much than with the -O2 of compiling.py.
_OPTIONS = ("-static", "-Og")


def run(program: Path, *emulator: str) -> tuple[str, list[str]]:
    """Returns what the driver says of itself, and its outputs; it checks linear maps alone."""
    if emulator and shutil.which(emulator[0]) is None:
        pytest.skip(f"no {emulator[0]}")
    ended = subprocess.run([*emulator, str(program)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr
    about, *outputs = ended.stdout.splitlines()
    return about, outputs


@pytest.fixture(scope="module")
def on_x86(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("x86") / "driver"
    return compile_engine("g++", FOLDER / "driver.cpp", program, _OPTIONS)


def test_the_plain_library_needs_no_avx(on_x86: Path) -> None:
    expected = run(on_x86)
    # Varied: 12 sentences, 3 outputs each, in 3 precisions.
    assert len(expected[1]) == 108
    assert len(set(expected[1])) == 108
    assert run(on_x86, "qemu-x86_64", "-cpu", "Nehalem") == expected


@pytest.mark.parametrize(
    ("options", "cpu", "about"),
    [
        # Of plain C++ the test above tells, and of ARM the last one.
        pytest.param([], "cortex-a53", "runs plain; has neon-dot: 0", marks=pytest.mark.patient),
        pytest.param([], "max", "runs plain; has neon-dot: 1", marks=pytest.mark.patient),
        (["-march=armv8.2-a+dotprod"], "max", "runs neon-dot; has neon-dot: 1"),
    ],
    ids=["plain", "plain-on-newer", "neon-dot"],
)
def test_arm_finds_the_same_outputs(
    on_x86: Path, tmp_path: Path, options: list[str], cpu: str, about: str
) -> None:
    program = compile_engine(
        "aarch64-linux-gnu-g++", FOLDER / "driver.cpp", tmp_path / "driver", [*_OPTIONS, *options]
    )
    found = run(program, "qemu-aarch64", "-cpu", cpu)
    assert found == (about, run(on_x86)[1])
