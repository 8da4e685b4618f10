"""How a processor is used: threads and memory, settled by the program, not by the user."""

import ctypes
import math
import os
import platform
from pathlib import Path

import torch

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = -3, -1, -2
"""Numbers that glibc's malloc.h gives to `mallopt`'s parameters."""
_KEPT_BYTES = 1 << 30
_GROWTH_BYTES = 64 << 20
_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")


def count_processors() -> int:
    """Returns how many processors this process may use at once.

    Those that it may run on, and no more than a container's quota of time is worth: torch counts
    the first alone, and threads beyond the quota wait for each other.
    """
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min(allowed, _read_quota()))


def settle_processor(*, num_processes: int = 1) -> None:
    """Leaves torch with a thread for each processor that is this process's, and memory kept.

    `OMP_NUM_THREADS` overrules the count. Memory that a pass gives back is kept for the next one:
    returned to the system, it would be cleared page by page for each pass.

    Args:
        num_processes: How many processes share this machine's processors.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(
            max(1, min(torch.get_num_threads(), count_processors() // num_processes))
        )
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_TOP_PAD, _GROWTH_BYTES)


def _read_quota() -> int:
    """Returns how many processors a container's quota is worth, rounded up."""
    try:
        quota, period = _QUOTA_FILE.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 1 << 20
    return 1 << 20 if quota == "max" else math.ceil(int(quota) / int(period))
