"""How soon the first translation comes, beyond what importing torch alone takes.

    python benchmarks/first_line.py MODEL [--rounds 5] [OPTION ...]

Further options go to `mtkit translate`, such as `--set inference.engine=torch`. Both processes
start with a warm file cache, in turn.
"""

import argparse
import statistics
import subprocess
import sys
import time

from peers.machine import describe_machine, print_machine

TORCH_ALONE = [sys.executable, "-c", "import torch; print(torch.__version__, flush=True)"]


def time_first_line(command: list[str], text: str) -> float:
    """Returns the seconds from a process's start to its first line."""
    started_at = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text)
        process.stdin.close()
        line = process.stdout.readline()
        elapsed_seconds = time.perf_counter() - started_at
        if not line:
            assert process.stderr is not None
            sys.exit(process.stderr.read())
        process.stdout.read()
    return elapsed_seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    options, passed_on = parser.parse_known_args()
    translate = [sys.executable, "-m", "mtkit", "translate", "--model", options.model]
    translate += passed_on
    seconds: dict[str, list[float]] = {"import torch": [], "mtkit translate": []}
    for _ in range(options.rounds):
        seconds["import torch"].append(time_first_line(TORCH_ALONE, ""))
        seconds["mtkit translate"].append(time_first_line(translate, "A man sleeps.\n"))
    print_machine(describe_machine())
    medians = []
    for name, measured in seconds.items():
        medians.append(statistics.median(measured))
        print(f"{name}: {medians[-1]:.2f} s ({min(measured):.2f} to {max(measured):.2f})")
    print(f"beyond importing torch: {medians[1] - medians[0]:.2f} s")


if __name__ == "__main__":
    main()
