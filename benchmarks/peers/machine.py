"""The machine that a figure depends on, and the start of a worker."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx_vnni",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
)


def describe_machine(device: str = "cpu") -> dict[str, Any]:
    """Returns the date, the CPU and what it can do, how busy it is, and the GPU if asked."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    facts = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    flags = facts.get("flags", "").split()
    machine: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": facts.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "flags": {flag: flag in flags for flag in FLAGS} if flags else {},
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }
    if device == "cuda":
        import torch  # noqa: PLC0415

        machine["gpu"] = torch.cuda.get_device_name()
    return machine


def print_machine(machine: dict[str, Any], device: str = "cpu") -> None:
    flags = ", ".join(f"{flag} {'yes' if has else 'no'}" for flag, has in machine["flags"].items())
    print(f"{machine['date']}; {machine['cpu']}, {machine['cores']} cores; {flags}")
    print(f"device: {machine.get('gpu', device)}; load before: {machine['load']}")


def environment_of(command: list[str], *, threads: int, device: str = "cpu") -> dict[str, str]:
    """Returns the environment of a command, in which the number of threads holds for all it starts.

    Args:
        command: What is started.
        threads: 0 leaves their number to the command.
        device: `cuda` shows it one GPU.
    """
    environment = dict(os.environ)
    if command[0] != sys.executable:
        # What is meant for mtkit's environment is no use in another.
        environment.pop("PYTHONPATH", None)
    if device == "cuda":
        # Some would take all that there are.
        environment.setdefault("CUDA_VISIBLE_DEVICES", "0")
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    return environment


def run_worker(
    command: list[str],
    *,
    threads: int,
    time_limit: float,
    device: str = "cpu",
    is_tool: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Returns what a command printed; one that can't be started or takes too long has failed.

    Args:
        command: What is started.
        threads: 0 leaves their number to the command.
        time_limit: Seconds.
        device: `cpu` or `cuda`.
        is_tool: It prints to the terminal itself.
    """
    try:
        return subprocess.run(
            command,
            capture_output=not is_tool,
            text=True,
            env=environment_of(command, threads=threads, device=device),
            stdin=subprocess.DEVNULL,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "it took longer than --time-limit\n")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{error}\n")
