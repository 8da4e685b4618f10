"""Compiles the engine for tests: with sanitizers, or for CPUs that run under an emulator."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from mtkit.engine import library

FOLDER = Path(__file__).parent


def compile_engine(compiler: str, source: Path, output: Path, options: Sequence[str]) -> Path:
    """Returns a compiled program or library; skips the test without this compiler."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    made_of = library._digest_sources().decode()
    command = [
        *(compiler, "-std=c++17", "-O2", "-ffp-contract=fast", "-pthread", *options),
        *(f'-DMTKIT_MADE_OF="{made_of} tests"', f"-I{library.FOLDER}", str(source)),
        *("-o", str(output)),
    ]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return output
