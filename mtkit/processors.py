"""How many processors a process may use."""

import math
import os
from pathlib import Path

_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")


def count_processors() -> int:
    """Returns how many processors this process may use at once.

    Those that it may run on, and no more than a container's quota of time is worth: torch counts
    the first alone, and threads beyond the quota wait for each other.
    """
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _read_quota()
    return allowed if quota is None else max(1, min(allowed, quota))


def _read_quota() -> int | None:
    """Returns how many processors a container's quota is worth, rounded up; None without one."""
    try:
        quota, period = _QUOTA_FILE.read_text(encoding="ascii").split()
        return None if quota == "max" else math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return None
