"""How many processors a process may use, and how many of them others keep busy."""

import math
import os
import time
from pathlib import Path

_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")
_TIMES_FILE = Path("/proc/stat")


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


def measure_load(seconds: float = 0.3) -> float:
    """Returns how many of this process's processors others keep busy, while it sleeps for a moment.

    0 where that isn't known: on a system other than Linux, or under a container's quota, whose
    processors are shared with other containers.
    """
    if _read_quota() is not None or not hasattr(os, "sched_getaffinity"):
        return 0.0
    try:
        before = _read_times()
        time.sleep(seconds)
        after = _read_times()
    except (OSError, ValueError):
        return 0.0
    load = 0.0
    for name in before.keys() & after.keys():
        busy, total = (then - now for then, now in zip(after[name], before[name], strict=True))
        load += busy / total if total > 0 else 0.0
    return load


def _read_times() -> dict[str, tuple[int, int]]:
    """Returns the busy time and the whole time of each processor this process may run on."""
    allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    times = {}
    # Columns: user, nice, system, idle, waiting for a disk, ... (proc_stat(5)).
    for line in _TIMES_FILE.read_text(encoding="ascii").splitlines():
        name, *columns = line.split()
        if name in allowed:
            # Guests' time, behind the eighth column, is counted in the user's already.
            spent = [int(column) for column in columns[:8]]
            times[name] = (sum(spent) - sum(spent[3:5]), sum(spent))
    return times
