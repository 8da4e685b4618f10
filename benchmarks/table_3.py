"""Trains rows of the paper's Table 3 (arXiv 1706.03762) at Multi30k's size, some seeds of each.

    python benchmarks/table_3.py DATA FOLDER [--seeds 1 2 3] [--jobs N]

DATA holds Multi30k as the `multi30k-en-de` recipe reads it. Each row is that recipe in fewer
updates, with one thing changed, by `mtkit run`; as in the paper, checkpoints aren't averaged and
the development set is translated, too. Runs are in FOLDER; finished ones aren't repeated, so it may
be stopped at any time. The table of all finished runs goes to stdout.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROWS = {
    "4 heads, dropout 0.2, smoothing 0.1, sinusoids": [],
    "1 head": ["model.num_heads=1"],
    "16 heads": ["model.num_heads=16"],
    "dropout 0.0": ["model.dropout=0.0"],
    "dropout 0.1": ["model.dropout=0.1"],
    "label smoothing 0.0": ["training.label_smoothing=0.0"],
    "learned positions": ["model.positions=learned", "model.max_positions=256"],
}
"""The change in each; the heads of a layer share 128 dimensions, as in rows (A)."""

_FILE = '{{name = "{0}", source = "{1}.en.gz", target = "{1}.de.gz"}}'
COMMON = [
    "training.max_steps=2000",
    "training.checkpoint_every=1000",
    "training.averaging.num_checkpoints=1",
    "evaluation.test_sets=["
    + ", ".join((_FILE.format("val", "val"), _FILE.format("test2016", "test_2016_flickr")))
    + "]",
]


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        perplexity: On the development set, a token.
        dev_bleu: On the development set, beam 4.
        test_bleu: On test2016, beam 4.
    """

    perplexity: float
    dev_bleu: float
    test_bleu: float


def workspace_of(folder: Path, row: str, seed: int) -> Path:
    """Returns the path of a run."""
    name = "".join(letter if letter.isalnum() else "-" for letter in row)
    return folder / f"{name}-seed-{seed}"


def train(data: Path, workspace: Path, row: str, seed: int) -> int:
    """Runs a row with a seed to its scores, in one thread; returns the exit code."""
    overrides = [f"data.data_root={data.absolute()}", f"seed={seed}", *COMMON, *ROWS[row]]
    command = [sys.executable, "-m", "mtkit", "run", "--recipe", "multi30k-en-de"]
    command += ["--workspace", str(workspace)]
    for override in overrides:
        command += ["--set", override]
    workspace.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{workspace}.log").open("w", encoding="utf-8") as log:
        return subprocess.run(
            command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
        ).returncode


def read_result(workspace: Path) -> Result | None:
    """Returns what a run reached; None where it isn't done."""
    scores, metrics = workspace / "scores.json", workspace / "metrics.jsonl"
    if not scores.is_file():
        return None
    found = {
        score["test_set"]: score["value"]
        for score in json.loads(scores.read_text("utf-8"))["scores"]
        if score["metric"] == "BLEU"
    }
    lines = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
    perplexity = [line["perplexity"] for line in lines if line["kind"] == "dev"][-1]
    return Result(perplexity, found["val"], found["test2016"])


def describe(values: list[float]) -> str:
    """Returns mean and, of several, standard deviation."""
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def print_table(folder: Path, seeds: list[int]) -> None:
    print("| row | seeds | dev perplexity | dev BLEU | test2016 BLEU | each seed's test |")
    print("|---|---|---|---|---|---|")
    for row in ROWS:
        each = [read_result(workspace_of(folder, row, seed)) for seed in seeds]
        done = [result for result in each if result is not None]
        if done:
            columns = [
                describe([getattr(result, key) for result in done])
                for key in ("perplexity", "dev_bleu", "test_bleu")
            ]
            tests = ", ".join(f"{result.test_bleu:.1f}" for result in done)
            print(f"| {row} | {len(done)} | {' | '.join(columns)} | {tests} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    options = parser.parse_args()

    def run(task: tuple[int, str]) -> None:
        seed, row = task
        workspace = workspace_of(options.folder, row, seed)
        if read_result(workspace) is None:
            code = train(options.data, workspace, row, seed)
            print(f"{workspace.name}: {read_result(workspace) or code}", file=sys.stderr)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, [(seed, row) for seed in options.seeds for row in ROWS]))
    print_table(options.folder, options.seeds)


if __name__ == "__main__":
    main()
