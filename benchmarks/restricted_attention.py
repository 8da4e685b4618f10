"""Restricted self-attention compared with full attention, by length of text: time and memory.

    python benchmarks/restricted_attention.py [--window 16 64] [--lengths 64 128 ...] [--json FILE]

One layer of self-attention of the base model (d_model 512, 8 heads) reads one text in fp32: the
forward pass, as in translation, and with the backward pass, as in training. Each case has its own
process; its peak memory is that beyond a process that computes nothing. Times are medians of
several runs.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from peers.machine import describe_machine, print_machine

from mtkit.network import PaddedLayout
from mtkit.network.attention import SelfAttention
from mtkit.recipe.model import Model

LENGTHS = [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192]
_SECONDS = 2.0


def measure(length: int, window: int | None, *, trains: bool) -> dict[str, float]:
    """Returns milliseconds and MiB of a case, in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    section = Model(d_model=512, num_heads=8, attention_window=window, attention_dropout=0.0)
    layer = SelfAttention(section).train(trains)
    inputs = torch.randn(1, length, 512, requires_grad=trains)
    layout = PaddedLayout(torch.ones(1, length, dtype=torch.bool))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def run() -> float:
        begun = time.perf_counter()
        with torch.set_grad_enabled(trains):
            output = layer(inputs, layout)
            if trains:
                output.sum().backward()
        return time.perf_counter() - begun

    first = run()
    times = [run() for _ in range(max(3, min(200, int(_SECONDS / first))))]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"milliseconds": 1e3 * statistics.median(times), "mib": (peak - before) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--window", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        length, window, trains = json.loads(options.case)
        print(json.dumps(measure(length, window, trains=trains)))
        return
    machine = describe_machine()
    found = {}
    for trains in (False, True):
        for length in options.lengths:
            for window in (None, *options.window):
                command = [sys.executable, __file__, "--case", json.dumps([length, window, trains])]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[trains, length, window] = json.loads(done.stdout)
                print(trains, length, window, done.stdout.strip(), file=sys.stderr)
    print_machine(machine)
    for trains, what in ((False, "translation"), (True, "training, with the backward pass")):
        print(f"\n{what}: milliseconds, and MiB, of one layer; time of full attention to it\n")
        print("| length | full | " + " | ".join(f"{w} neighbours" for w in options.window) + " |")
        print("|---" * (2 + len(options.window)) + "|")
        for length in options.lengths:
            full = found[trains, length, None]
            cells = [f"{full['milliseconds']:.2f}, {full['mib']:.0f}"]
            for window in options.window:
                case = found[trains, length, window]
                ratio = full["milliseconds"] / case["milliseconds"]
                cells.append(f"{case['milliseconds']:.2f}, {case['mib']:.0f} ({ratio:.2f})")
            print(f"| {length:,} | {' | '.join(cells)} |")
    if options.json is not None:
        cases = [
            {"trains": trains, "length": length, "window": window, **case}
            for (trains, length, window), case in found.items()
        ]
        options.json.write_text(json.dumps({"machine": machine, "cases": cases}, indent=2) + "\n")


if __name__ == "__main__":
    main()
