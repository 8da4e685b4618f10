"""Names of devices, as on the command line."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mtkit.errors import MtkitError

_GPU_FILES = ("nvidia*", "nvhost*", "dxg", "kfd")
"""In /dev: of NVIDIA's driver, of its boards with shared memory, of WSL, and of AMD's driver."""
DeviceKind = Literal["auto", "cpu", "cuda"]


def read_device(name: str) -> tuple[str, int | None]:
    """Returns `auto`, `cpu` or `cuda`, and the GPU's index if the name has one."""
    # torch stores an index in a byte: 250 would become negative.
    match = re.fullmatch(r"cuda:(\d\d?)", name)
    if match is not None:
        return "cuda", int(match[1])
    if name in ("auto", "cpu", "cuda"):
        return name, None
    raise MtkitError(f"no device '{name}'", "expected auto, cpu, cuda or cuda:1")


def has_torch() -> bool:
    """Checks that PyTorch is installed, without loading it."""
    return find_spec("torch") is not None


def is_cpu(name: str) -> bool:
    """Checks that a device is certainly the CPU, without loading PyTorch."""
    kind, _ = read_device(name)
    return kind == "cpu" or (kind == "auto" and not (has_torch() and _may_have_gpu()))


def _may_have_gpu() -> bool:
    """Checks for a GPU's device file; other systems than Linux have none."""
    if sys.platform != "linux":
        return sys.platform != "darwin"
    return any(next(Path("/dev").glob(name), None) for name in _GPU_FILES)
