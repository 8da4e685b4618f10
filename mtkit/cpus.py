"""How many CPUs a process may use, and how many of them are busy."""

import math
import os
import time
from pathlib import Path

_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")
_TIMES_FILE = Path("/proc/stat")


def count_cpus() -> int:
    """Returns how many CPUs this process may use at once.

    These are the CPUs that it may run on, limited by a container's quota: torch only counts the
    former, and threads beyond the quota wait for each other.
    """
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _read_quota()
    return allowed if quota is None else max(1, min(allowed, quota))


def count_threads() -> int:
    """Returns the number of threads for a translation: `OMP_NUM_THREADS`, else one per CPU."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else count_cpus()


def _read_quota() -> int | None:
    """Returns a container's quota in CPUs, rounded up; None without one."""
    try:
        quota, period = _QUOTA_FILE.read_text(encoding="ascii").split()
        return None if quota == "max" else math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return None


def load_numpy() -> None:
    """Imports numpy with one thread for its BLAS, which the engine doesn't use.

    By default BLAS starts a thread per CPU, and they spin for a tenth of a second.
    """
    key = "OPENBLAS_NUM_THREADS"
    if key in os.environ:
        return
    os.environ[key] = "1"
    try:
        import numpy  # noqa: F401, PLC0415
    finally:
        # torch has a BLAS of its own, which reads this, too.
        del os.environ[key]


def measure_load(seconds: float = 0.3) -> float:
    """Returns how many of this process's CPUs others keep busy, while it sleeps briefly.

    0 if unknown: outside Linux, or under a quota, whose CPUs other containers share.
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
    """Returns the busy time and the total time of each CPU that this process may run on."""
    allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    times = {}
    # Columns: user, nice, system, idle, waiting for a disk, ... (proc_stat(5)).
    for line in _TIMES_FILE.read_text(encoding="ascii").splitlines():
        name, *columns = line.split()
        if name in allowed:
            # Guests' time, after the eighth column, is already included in the user's.
            spent = [int(column) for column in columns[:8]]
            times[name] = (sum(spent) - sum(spent[3:5]), sum(spent))
    return times
