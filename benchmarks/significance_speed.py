"""Times paired bootstrap tests of many systems, from files to p-values, and sacreBLEU's own.

python benchmarks/significance_speed.py [--systems N] [--lines N] [--resamples N] [--jobs N]

The 16 systems of $MTKIT_TEST_DATA/wmt17_en_de_systems by BLEU, chrF and TER; the baseline is
LIUM-NMT, as in sacreBLEU's tests. Both commands run once, in processes of their own, one after the
other. Memory is the peak of each and all its children, sampled ten times a second; CPU time
is that of all of them, and means more than seconds on a shared machine.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from mtkit.cpus import count_cpus
from mtkit.evaluation.significance import bootstrap_intervals, find_differences
from mtkit.evaluation.statistics import measure_systems
from mtkit.recipe.evaluation import Evaluation

BASELINE = "LIUM-NMT"
SEED = 12345
METRICS = ("bleu", "chrf", "ter")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--systems", type=int, default=16, help="how many, the baseline included")
    parser.add_argument("--lines", type=int, default=3_004)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--metrics", default=",".join(METRICS), help="by commas")
    parser.add_argument("--jobs", type=int, default=1, help="sacreBLEU's --paired-jobs")
    parser.add_argument("--ours", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    metrics = options.metrics.split(",")
    if options.ours:
        print(json.dumps(find_p_values(options.ours, metrics, options.resamples)))
        return
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), options.systems, options.lines)
        print(
            f"{len(files) - 1} systems, {options.lines:,} sentences, {options.metrics}, "
            f"{options.resamples:,} resamples; {count_cpus()} CPUs"
        )
        ours, seconds = time_command(
            "mtkit",
            *(__file__, "--ours", *files, "--metrics", options.metrics),
            *("--resamples", str(options.resamples)),
        )
        theirs, their_seconds = time_command(
            "sacreBLEU",
            *("-m", "sacrebleu", files[0], "-i", *files[1:], "-m", *metrics, "-q", "-f", "text"),
            *("--paired-bs", "--paired-bs-n", str(options.resamples)),
            *("--paired-jobs", str(options.jobs)),
        )
    print(f"ratio: {their_seconds / seconds:.2f}")
    differences = [
        abs(round(p_value, 4) - float(printed))
        # A row per system. As JSON, sacreBLEU cannot print what it computes with NumPy 2.
        for p_value, printed in zip(
            json.loads(ours), re.findall(r"\(p = ([\d.]+)\)", theirs), strict=True
        )
    ]
    print(f"largest difference of {len(differences)} p-values, to 4 digits: {max(differences):g}")


def write_files(folder: Path, num_systems: int, num_lines: int) -> list[str]:
    """Returns plain files of the reference, the baseline and the other systems, in this order."""
    source = Path(os.environ["MTKIT_TEST_DATA"]) / "wmt17_en_de_systems"
    [reference] = source.glob("reference.*.txt.gz")
    systems = sorted(
        source.glob("newstest2017.*.txt.gz"), key=lambda path: BASELINE not in path.name
    )
    files = []
    for path in (reference, *systems[:num_systems]):
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:num_lines]
        file = folder / path.name.removesuffix(".txt.gz")
        file.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
        files.append(str(file))
    return files


def find_p_values(files: list[str], metrics: list[str], resamples: int) -> list[float]:
    """Returns p-values, system by system, once all that sacreBLEU's command prints is known."""
    reference, *systems = (
        Path(file).read_text("utf-8").removesuffix("\n").split("\n") for file in files
    )
    names = files[1:]
    settings = Evaluation(metrics=tuple(metrics))
    started_at = time.perf_counter()
    measured = measure_systems(dict(zip(names, systems, strict=True)), [reference], settings)
    measured_at = time.perf_counter()
    found = find_differences(measured, names[0], test="bootstrap", resamples=resamples, seed=SEED)
    bootstrap_intervals(measured, resamples=resamples, seed=SEED)
    print(
        f"  of these, counting {measured_at - started_at:.1f} s, "
        f"resampling {time.perf_counter() - measured_at:.1f} s",
        file=sys.stderr,
    )
    return [each.p_value for differences in found.values() for each in differences]


def time_command(name: str, *arguments: str) -> tuple[str, float]:
    """Returns what a Python command prints, and its seconds; prints these and its memory."""
    environment = {**os.environ, "SACREBLEU_SEED": str(SEED), "NO_COLOR": "1"}
    peak = 0.0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        before = os.times()
        started_at = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], stdout=output, env=environment)
        while process.poll() is None:
            peak = max(peak, measure_memory(process.pid))
            time.sleep(0.1)
        seconds = time.perf_counter() - started_at
        if process.returncode:
            raise SystemExit(process.returncode)
        output.seek(0)
        after = os.times()
        busy = after.children_user + after.children_system
        busy -= before.children_user + before.children_system
        print(f"{name}: {seconds:.1f} s, CPU time {busy:.1f} s, {peak:,.0f} MiB", flush=True)
        return output.read(), seconds


def measure_memory(parent: int) -> float:
    """Returns the memory of a process and all below it, in MiB; 0 once it has ended."""
    try:
        process = psutil.Process(parent)
        family = (process, *process.children(recursive=True))
        return sum(each.memory_info().rss for each in family) / 2**20
    except psutil.Error:
        return 0.0


if __name__ == "__main__":
    main()
