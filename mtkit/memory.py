"""How much memory this machine or container has, and how much is free."""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

_MEMORY_FILE = Path("/proc/meminfo")
_LIMIT_FILE = Path("/sys/fs/cgroup/memory.max")
_USED_FILE = Path("/sys/fs/cgroup/memory.current")
_COUNTS_FILE = Path("/sys/fs/cgroup/memory.stat")


def count_memory_bytes() -> int | None:
    """Returns the memory of the machine, or of a container with less; None if unknown."""
    if not hasattr(os, "sysconf"):
        return None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _LIMIT_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return memory
    return min(memory, int(limit)) if limit.isdecimal() else memory


def free_memory_bytes() -> int | None:
    """Returns the available memory of this machine or container; None if unknown."""
    try:
        lines = _MEMORY_FILE.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None
    try:
        limit, used = int(_LIMIT_FILE.read_text("ascii")), int(_USED_FILE.read_text("ascii"))
    except (OSError, ValueError):
        # No container, or one without a limit, which has "max" in the file.
        return free
    with suppress(OSError, ValueError, KeyError):
        counts = dict(line.split() for line in _COUNTS_FILE.read_text("ascii").splitlines())
        # Cached files, which the system drops when memory is needed.
        used -= int(counts["inactive_file"])
    return max(0, min(free, limit - used))


def return_freed_memory() -> None:
    """Gives memory that this process has freed back to the system; glibc would keep it."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
