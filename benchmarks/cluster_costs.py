"""What `mtkit prepare` costs by stage, on local workers and on one node of a Ray cluster.

    python benchmarks/cluster_costs.py CORPUS FOLDER [--pairs 1000000] [--cores 16]

CORPUS is a folder with {train,dev,test}.{en,de}.gz; FOLDER gets gigabytes. Processor time of the
driver and of all workers is taken at the end of each stage; on the cluster, that of Ray's own
processes counts. A third of the pairs is measured, too: what a stage costs whatever the corpus,
such as a start or learning from a sample, isn't multiplied. From it follows a table for larger
corpora and clusters, by

    seconds of a stage = max(driver, workers / (nodes * cores))
    driver, workers    = fixed + pairs * seconds per pair

since the driver's work isn't spread.
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
Costs = dict[str, tuple[float, ...]]
"""Seconds of driver and workers by stage."""
CORPORA = (36_000_000, 500_000_000)
NODES = (1, 4, 32)
SPREAD = ("text", "train")
_SECONDS_BETWEEN_LOOKS = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=16, help="cores of a node in the table")
    options = parser.parse_args()
    fewer = options.pairs // 3
    local: dict[int, Costs] = {}
    spread: dict[int, Costs] = {}
    for num_pairs in (fewer, options.pairs):
        folder = options.folder / f"{num_pairs}"
        if not (folder / "costs.toml").is_file():
            write_corpus(options.corpus, folder, num_pairs)
            (folder / "costs.toml").write_text(RECIPE)
        local[num_pairs] = measure(folder, ["--workers", "2"], [])
        show(f"two local workers, {num_pairs:,} pairs", local[num_pairs], num_pairs)
        with start_nodes(1, MTKIT_NODE_CPUS="2") as nodes:
            # Its aligner learns in the driver, as above.
            given = [f"cluster.address={nodes.address}", "data.word_aligner=false"]
            overrides = [each for override in given for each in ("--set", override)]
            spread[num_pairs] = measure(folder, overrides, [psutil.Process(nodes.pid)])
        show(f"one node with two workers, {num_pairs:,} pairs", spread[num_pairs], num_pairs)
    whole, per_pair = (
        [sum(sum(costs[stage]) for stage in SPREAD) for costs in each]
        for each in (
            (spread[options.pairs], local[options.pairs]),
            (find_slopes(spread), find_slopes(local)),
        )
    )
    print(f"{', '.join(SPREAD)}: node / local: {whole[0] / whole[1]:.3f}")
    print(f"  of each further pair: {per_pair[0] / per_pair[1]:.3f}")
    show_table(local, options.cores)


def measure(folder: Path, options: list[str], others: list[psutil.Process]) -> Costs:
    """Returns the driver's and the workers' processor seconds of each stage."""
    remove_folder(folder / "run")
    command = [sys.executable, "-m", "mtkit", "prepare", "-r", str(folder / "costs.toml")]
    command += ["--workspace", str(folder / "run"), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    driver = psutil.Process(process.pid)
    found: Costs = {}
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


def show(name: str, costs: Costs, num_pairs: int) -> None:
    print(f"{name}: processor time in microseconds per pair")
    for stage, (driver, workers) in costs.items():
        print(f"  {stage:12} driver {driver / num_pairs * 1e6:8.2f}"
              f"  workers {workers / num_pairs * 1e6:8.2f}")  # fmt: skip
    print(json.dumps({stage: [round(each, 2) for each in pair] for stage, pair in costs.items()}))


def find_slopes(measured: dict[int, Costs]) -> Costs:
    """Returns the seconds of each further pair, from the costs of two sizes."""
    (fewer, of_fewer), (more, of_more) = measured.items()
    return {
        stage: tuple(
            max(0.0, after - before) / (more - fewer)
            for before, after in zip(of_fewer[stage], costs, strict=True)
        )
        for stage, costs in of_more.items()
    }


def show_table(measured: dict[int, Costs], num_cores: int) -> None:
    """Prints the hours of corpora on clusters, and the stage that takes longest."""
    print(f"| pairs | nodes of {num_cores} cores | hours | longest stage |")
    print("|---|---:|---:|---|")
    num_pairs, largest = max(measured.items())
    slopes = find_slopes(measured)
    for total in CORPORA:
        costs = {
            stage: [each + slope * (total - num_pairs) for each, slope in zip(*both, strict=True)]
            for stage, both in ((stage, (largest[stage], slopes[stage])) for stage in largest)
        }
        for num_nodes in NODES:
            hours = {
                stage: max(driver, workers / (num_nodes * num_cores)) / 3600
                for stage, (driver, workers) in costs.items()
            }
            longest = max(hours, key=lambda stage: hours[stage])
            driver, workers = costs[longest]
            limit = "driver" if driver > workers / (num_nodes * num_cores) else "workers"
            print(f"| {total:,} | {num_nodes} | {sum(hours.values()):.2f} | {longest}, {limit} |")


if __name__ == "__main__":
    main()
