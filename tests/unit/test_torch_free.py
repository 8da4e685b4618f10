"""Rooms load without torch, which takes two seconds: a command loads it once it runs a network."""

import subprocess
import sys
from pathlib import Path

import pytest

import mtkit

ROOT = Path(mtkit.__file__).parent
LOADS_TORCH = {f"mtkit.data.batches.{name}" for name in ("collate", "examples", "filling")}


def list_modules(room: Path) -> list[str]:
    """Returns the names of a room's modules, those of rooms inside it too."""
    files = sorted(room.rglob("*.py")) if room.is_dir() else [room]
    names = (".".join(file.relative_to(ROOT.parent).with_suffix("").parts) for file in files)
    return [name.removesuffix(".__init__") for name in names if name not in LOADS_TORCH]


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("room", ["cli", "data", "evaluation", "recipe", "text"])
def test_a_room_loads_without_torch(room: str) -> None:
    names = list_modules(ROOT / room)
    assert len(names) > 3
    program = f"import importlib, sys; [importlib.import_module(name) for name in {names}]"
    assert run(f"{program}; print('torch' in sys.modules)") == "False\n"


def test_what_every_room_may_need_loads_without_torch_and_pydantic() -> None:
    files = [file for file in ROOT.glob("*.py") if file.stem != "__main__"]
    names = [name for file in files for name in list_modules(file)]
    program = f"import importlib, sys; [importlib.import_module(name) for name in {names}]"
    assert run(f"{program}; print({{'torch', 'pydantic'}} & set(sys.modules))") == "set()\n"


@pytest.mark.parametrize("module", ["plan", "prepare", "init", "hardware", "score_files"])
def test_what_needs_no_network_loads_without_torch(module: str) -> None:
    program = f"import sys, mtkit.pipeline.{module}; print('torch' in sys.modules)"
    assert run(program) == "False\n"


def test_help_comes_without_torch() -> None:
    program = (
        "import atexit, sys; sys.argv = ['mtkit', 'train', '--help']\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "from mtkit.cli.app import main; main()"
    )
    said = run(program)
    assert "--gpus" in said
    assert said.endswith("False\n")
