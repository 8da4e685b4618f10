"""How much memory training takes, and how much there is."""

import sys
from pathlib import Path

import torch

_MEMORY_FILE = Path("/proc/meminfo")
_LIMIT_FILE = Path("/sys/fs/cgroup/memory.max")
_USED_FILE = Path("/sys/fs/cgroup/memory.current")

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "bad_alloc",
    "not enough memory",
    "alloc_failed",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error says that memory could not be had, of a GPU or of the machine."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _OUT_OF_MEMORY)


def peak_memory_bytes(device: torch.device) -> int:
    """Returns the most memory that this process has held so far: of its GPU, or of the machine.

    On a system that doesn't tell, that is 0.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource  # noqa: PLC0415
    except ModuleNotFoundError:
        return 0
    # macOS counts in bytes, all others in kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def free_memory_bytes() -> int | None:
    """Returns how much more memory processes can take; None on a system that doesn't tell.

    What the machine has available, or what is left of a container's limit where that is less.
    """
    try:
        lines = _MEMORY_FILE.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None
    try:
        limit, used = int(_LIMIT_FILE.read_text("ascii")), int(_USED_FILE.read_text("ascii"))
    except (OSError, ValueError):
        # No container, or one without a limit, which says "max".
        return free
    return max(0, min(free, limit - used))
