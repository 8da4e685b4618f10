"""What `mtkit prepare` costs by stage, on local workers and on one node of a Ray cluster.

    python benchmarks/cluster_costs.py CORPUS FOLDER [--pairs 1000000] [--cores 16]

CORPUS is a folder with {train,dev,test}.{en,de}.gz; FOLDER gets gigabytes. Processor time of the
driver and of all workers is taken at the end of each stage; on the cluster, that of Ray's own
processes counts. From it follows a table for larger corpora and clusters, by

    seconds of a stage = max(driver, workers / (nodes * cores))

which grow with the pairs: the driver's work isn't spread. Aligner and tokenizer learn from samples
that the measured pairs already fill; of further pairs they only read the text.
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
    local = measure(folder, ["--workers", "2"], [])
    show("two local workers", local, options.pairs)
    with start_nodes(1, MTKIT_NODE_CPUS="2") as nodes:
        ray = [psutil.Process(nodes.pid)]
        # The aligner learns in the driver, as above.
        given = (f"cluster.address={nodes.address}", "data.word_aligner=false")
        spread = measure(folder, [each for pair in given for each in ("--set", pair)], ray)
    show("one node with two workers", spread, options.pairs)
    totals = [sum(sum(costs[stage]) for stage in ("text", "train")) for costs in (local, spread)]
    print(f"text and train, node / local: {totals[1] / totals[0]:.3f}")
    show_table({**local, **spread}, options.pairs, options.cores)


def measure(
    folder: Path, options: list[str], others: list[psutil.Process]
) -> dict[str, tuple[float, float]]:
    """Returns the driver's and the workers' processor seconds of each stage."""
    remove_folder(folder / "run")
    command = [sys.executable, "-m", "mtkit", "prepare", "-r", str(folder / "costs.toml")]
    command += ["--workspace", str(folder / "run"), *options]
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
    """Adds up the processor seconds of processes and of all below them, ended ones included.

    Ray's actors end without a parent that would count them, so all are looked at all the time.
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


def show(name: str, costs: dict[str, tuple[float, float]], num_pairs: int) -> None:
    print(f"{name}: processor time in microseconds per pair")
    for stage, (driver, workers) in costs.items():
        print(f"  {stage:12} driver {driver / num_pairs * 1e6:8.2f}"
              f"  workers {workers / num_pairs * 1e6:8.2f}")  # fmt: skip
    print(json.dumps({stage: [round(each, 2) for each in pair] for stage, pair in costs.items()}))


def show_table(costs: dict[str, tuple[float, float]], num_pairs: int, num_cores: int) -> None:
    """Prints the hours of corpora on clusters, and what limits each stage."""
    print(f"| pairs | nodes of {num_cores} cores | hours | by stage |")
    print("|---|---:|---:|---|")
    for total in CORPORA:
        for num_nodes in NODES:
            hours, limits = {}, {}
            for stage, (driver, workers) in costs.items():
                if stage in SECONDS_TO_READ:
                    alone = driver + SECONDS_TO_READ[stage] * (total - num_pairs)
                    spread = workers / (num_nodes * num_cores)
                else:
                    alone = driver * total / num_pairs
                    spread = workers * total / num_pairs / (num_nodes * num_cores)
                hours[stage] = max(alone, spread) / 3600
                limits[stage] = "driver" if alone > spread else "workers"
            listed = ", ".join(
                f"{stage} {each:.2f} ({limits[stage]})" for stage, each in hours.items()
            )
            print(f"| {total:,} | {num_nodes} | {sum(hours.values()):.2f} | {listed} |")


if __name__ == "__main__":
    main()
