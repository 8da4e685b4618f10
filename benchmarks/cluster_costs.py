"""What `mtkit prepare` costs by stage, on local workers and on one node of a Ray cluster.

    python benchmarks/cluster_costs.py CORPUS FOLDER [--pairs 1000000] [--cores 16]

CORPUS is a folder with {train,dev,test}.{en,de}.gz; FOLDER gets gigabytes. The script measures
the CPU time of the driver and of all workers at the end of each stage, for all pairs and for a
fifth of them; on the cluster it includes Ray's own processes. It computes the start of a stage, the
cost of a pair, and a table for larger corpora and clusters, by

    seconds of a stage = max(driver's start + pair * pairs, workers' pair * pairs / (nodes * cores))

The driver's work isn't spread. Aligner and tokenizer learn from samples that the measured pairs
already fill; of further pairs they only read the text.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psutil
from prepare_scale import write_corpus

from mtkit.folders import remove_folder

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.ray_cluster import start_nodes

RECIPE = """\
name = "scale"
[data]
source_language = "en"
target_language = "de"
word_aligner = true
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = 16000
"""
CORPORA = (36_000_000, 500_000_000)
NODES = (1, 4, 32)
SECONDS_TO_READ = {"aligner": 1e-6, "tokenizer": 2e-6, "dev": 0.0}
"""The driver's seconds for a pair that it only reads: once, or once for each side."""
_SECONDS_BETWEEN_LOOKS = 0.2
_PART = 5
Costs = dict[str, tuple[float, float]]
"""The driver's and the workers' seconds of each stage."""
Sizes = tuple[int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=16, help="cores of a node in the table")
    options = parser.parse_args()
    folder = options.folder / f"{options.pairs}"
    if not (folder / "costs.toml").is_file():
        write_corpus(options.corpus, folder, options.pairs)
        (folder / "costs.toml").write_text(RECIPE)
    sizes = options.pairs // _PART, options.pairs
    local = [measure(folder, ["--workers", "2"], [], size) for size in sizes]
    show("two local workers", local, sizes)
    with start_nodes(1, MTKIT_NODE_CPUS="2") as nodes:
        ray = [psutil.Process(nodes.pid)]
        # The aligner learns in the driver, as above.
        given = ["--set", f"cluster.address={nodes.address}", "--set", "data.word_aligner=false"]
        spread = [measure(folder, given, ray, size) for size in sizes]
    show("one node with two workers", spread, sizes)
    totals = [
        sum(sum(costs[-1][stage]) for stage in ("text", "train")) for costs in (local, spread)
    ]
    print(f"text and train, node / local: {totals[1] / totals[0]:.3f}")
    show_table(
        [{**here, **there} for here, there in zip(local, spread, strict=True)], sizes, options.cores
    )


def measure(
    folder: Path, options: list[str], others: list[psutil.Process], num_pairs: int
) -> Costs:
    """Returns the driver's and the workers' CPU seconds of each stage."""
    remove_folder(folder / "run")
    command = [sys.executable, "-m", "mtkit", "prepare", "-r", str(folder / "costs.toml")]
    command += ["--workspace", str(folder / "run"), *options]
    command += ["--set", f"data.train.0.max_pairs={num_pairs}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    driver = psutil.Process(process.pid)
    found: dict[str, tuple[float, float]] = {}
    meter = Meter(others)
    time.sleep(2 * _SECONDS_BETWEEN_LOOKS)
    others_before = meter.read()
    before = (0.0, 0.0)
    assert process.stderr is not None
    for line in process.stderr:
        if stage := re.match(r"(\w+): [\d.,]+ s$", line.strip()):
            # Ray's processes take a moment to end, and to be counted.
            time.sleep(1.0 if others else 0.0)
            used = driver.cpu_times()
            now = (
                used.user + used.system,
                used.children_user + used.children_system + meter.read() - others_before,
            )
            found[stage[1]] = (now[0] - before[0], now[1] - before[1])
            before = now
    meter.close()
    if process.wait():
        raise SystemExit(process.returncode)
    return found


class Meter:
    """Adds up the CPU seconds of processes and their descendants, including those that ended.

    Ray's actors end without a parent that would count them, so a thread polls all processes.
    """

    def __init__(self, roots: list[psutil.Process]) -> None:
        self._roots, self._seen, self._is_over = roots, dict[tuple[int, float], float](), Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    def read(self) -> float:
        """Returns the seconds so far."""
        return sum(self._seen.copy().values())

    def close(self) -> None:
        """Ends the counting."""
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_SECONDS_BETWEEN_LOOKS):
            for root in self._roots:
                for each in (root, *root.children(recursive=True)):
                    with suppress(psutil.Error):
                        used = each.cpu_times()
                        self._seen[each.pid, each.create_time()] = used.user + used.system


def show(name: str, costs: list[Costs], sizes: Sizes) -> None:
    """Prints the CPU time of each stage: of its start, and of a pair."""
    print(f"{name}: CPU time in seconds, and in microseconds per pair beyond the first")
    for stage in costs[-1]:
        (driver, driver_pair), (workers, workers_pair) = (
            fit(costs, sizes, stage, who) for who in (0, 1)
        )
        print(f"  {stage:12} driver {driver:6.2f} {driver_pair * 1e6:7.2f}"
              f"  workers {workers:6.2f} {workers_pair * 1e6:7.2f}")  # fmt: skip
    for size, each in zip(sizes, costs, strict=True):
        rounded = {stage: [round(part, 2) for part in pair] for stage, pair in each.items()}
        print(f"  {size:,} pairs: {json.dumps(rounded)}")


def fit(costs: list[Costs], sizes: Sizes, stage: str, who: int) -> tuple[float, float]:
    """Returns the seconds of a stage's start, and those of a pair."""
    few, many = (each[stage][who] for each in costs)
    of_pair = max(0.0, (many - few) / (sizes[1] - sizes[0]))
    return max(0.0, many - of_pair * sizes[1]), of_pair


def show_table(costs: list[Costs], sizes: Sizes, num_cores: int) -> None:
    """Prints the hours of corpora on clusters, and what limits each stage."""
    print(f"| pairs | nodes of {num_cores} cores | hours | by stage |")
    print("|---|---:|---:|---|")
    for total in CORPORA:
        for num_nodes in NODES:
            hours, limits = {}, {}
            for stage in costs[-1]:
                if stage in SECONDS_TO_READ:
                    alone = costs[-1][stage][0] + SECONDS_TO_READ[stage] * (total - sizes[1])
                    spread = costs[-1][stage][1] / (num_nodes * num_cores)
                else:
                    start, of_pair = fit(costs, sizes, stage, 0)
                    alone = start + of_pair * total
                    spread = fit(costs, sizes, stage, 1)[1] * total / (num_nodes * num_cores)
                hours[stage] = max(alone, spread) / 3600
                limits[stage] = "driver" if alone > spread else "workers"
            listed = ", ".join(
                f"{stage} {each:.2f} ({limits[stage]})" for stage, each in hours.items()
            )
            print(f"| {total:,} | {num_nodes} | {sum(hours.values()):.2f} | {listed} |")


if __name__ == "__main__":
    main()
