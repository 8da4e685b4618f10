"""How much memory a process has held; standard library alone, but for a GPU's."""

import sys
from pathlib import Path


def peak_bytes(device: str = "cpu") -> int:
    """Returns the most memory that this process has held: of its GPU, or of the machine.

    What processes that it has begun hold of their own is added, as it is now.
    """
    if device == "cuda":
        # Workers that have no GPU to ask about may have no torch either.
        import torch  # noqa: PLC0415

        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status")
    if status.is_file():
        # getrusage on Linux counts the parent before this process began, too.
        [line] = [one for one in status.read_text("utf-8").splitlines() if one[:6] == "VmHWM:"]
        return int(line.split()[1]) * 1024 + sum(map(_own_bytes, _list_children()))
    # Not on Windows.
    import resource  # noqa: PLC0415

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _list_children() -> list[str]:
    """Returns the processes that this one has begun, as Linux numbers them."""
    return [
        child
        for thread in Path("/proc/self/task").iterdir()
        for child in (thread / "children").read_text("utf-8").split()
    ]


def _own_bytes(process: str) -> int:
    """Returns what a process holds and shares with no other."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text("utf-8").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
