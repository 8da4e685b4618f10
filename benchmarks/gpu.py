"""Checks mtkit on a GPU, and measures it: `make gpu`.

    python benchmarks/gpu.py check --data DATA [--folder FOLDER]
    python benchmarks/gpu.py train --data DATA [--folder FOLDER] [--min-bleu 40]

`check` runs tests/gpu, and measures the device's own limits, then updates of tiny, base and big at
two sizes: target tokens a second, the share of the device's peak that their products reach,
synchronisations, kernels, memory and what `mtkit plan` expects; then a search, and updates on
all GPUs together. `train` runs multi30k-en-de-paper from the corpus to its score. Each part has
its own process and time limit, so that a failure doesn't affect the others. The tables are
Markdown; the exit status is 1 if anything failed.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PARTS = Path(__file__).parent / "peers" / "gpu_worker.py"
CORPUS_RECIPE = "mixed-en-de-small"
VOCAB_SIZE = 32_000
PYTEST = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=short", "-W", "default"]
"""Versions that mtkit isn't tested with may warn without a fault."""
NO_GPU = "this machine has no GPU that torch can use: nothing was checked"
TRAINED_RECIPE = "multi30k-en-de-paper"


@dataclass
class Report:
    """What was found, printed as soon as it is.

    Attributes:
        folder: Where everything is written.
        failures: The parts that failed.
    """

    folder: Path
    failures: list[str] = field(default_factory=list)

    def run(
        self, name: str, command: Sequence[str | Path], seconds: float, given: bytes = b""
    ) -> str:
        """Runs a part; returns what it printed, which is kept in a file of its name."""
        log = self.folder / f"{name}.log"
        began_at = time.monotonic()
        with log.open("w", encoding="utf-8") as out:
            try:
                done = subprocess.run(
                    [str(word) for word in command],
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    input=given,
                    timeout=seconds,
                    check=False,
                    cwd=REPOSITORY,
                    env={**os.environ, "PYTHONPATH": _python_path()},
                )
                verdict = f"exit status {done.returncode}" if done.returncode else ""
            except subprocess.TimeoutExpired:
                verdict = f"took longer than {seconds:.0f} s"
        text = log.read_text("utf-8", "replace")
        took = time.monotonic() - began_at
        print(f"\n## {name}: {verdict or 'done'}, {took:.0f} s", flush=True)
        if verdict:
            self.fail(name, verdict, text)
        return text

    def fail(self, name: str, verdict: str, text: str = "") -> None:
        """Notes that a part failed, and prints the end of what it printed."""
        self.failures.append(f"{name}: {verdict}")
        print("\n".join(text.splitlines()[-25:]), flush=True)

    def end(self) -> int:
        """Prints the verdict; returns the exit status."""
        print("\nfailed: " + "; ".join(self.failures) if self.failures else "\nall passed")
        return int(bool(self.failures))


def _python_path() -> str:
    return os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["check", "train"])
    parser.add_argument("--data", type=Path, default=os.environ.get("MTKIT_TEST_DATA"))
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "runs" / "gpu")
    parser.add_argument("--only", help="parts of check, by commas: tests,updates,search,together")
    parser.add_argument("--min-bleu", type=float, default=40.0, help="Wu et al. report 41.02")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--seconds", type=float, default=540.0, help="limit of the training")
    return parser.parse_args()


def prepare(report: Report, data: Path) -> Path:
    """Returns the workspace with the corpus for updates, prepared if necessary."""
    workspace = report.folder / "mixed"
    if not (workspace / "data").is_dir():
        report.run("prepare", mtkit("prepare", *corpus_options(data, workspace)), 300)
    return workspace


def corpus_options(data: Path, workspace: Path) -> list[str]:
    """Returns the options of the corpus's commands."""
    settings = [f"data.data_root={data / 'mixed_en_de'}", f"tokenizer.vocab_size={VOCAB_SIZE}"]
    options = ["--recipe", CORPUS_RECIPE, "--workspace", str(workspace.absolute())]
    return [*options, *(word for setting in settings for word in ("--set", setting))]


def mtkit(*words: str) -> list[str]:
    """Returns a command of this Python's mtkit."""
    return [sys.executable, "-m", "mtkit", *words]


def check(report: Report, options: argparse.Namespace) -> None:
    """Runs the tests and all measurements."""
    workspace = prepare(report, options.data)
    task = report.folder / "task.json"
    overrides = corpus_options(options.data, workspace)[5::2]
    task.write_text(
        json.dumps({"recipe": CORPUS_RECIPE, "workspace": str(workspace), "overrides": overrides})
    )
    worker = [sys.executable, str(PARTS)]
    num_gpus = _count_gpus()
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_gpus)]
    parts: dict[str, Callable[[], str]] = {
        "limits": lambda: report.run("limits", [*worker, "limits", task], 60),
        "tests": lambda: report.run("tests", [*PYTEST, "tests/gpu"], 300),
        "updates": lambda: report.run("updates", [*worker, "updates", task], 240),
        "search": lambda: report.run("search", [*worker, "search", task], 120),
        "together": lambda: report.run(
            "together", [sys.executable, *torchrun, str(PARTS), "together", task], 120
        ),
    }
    for name, measure in parts.items():
        if options.only is None or name in options.only.split(","):
            lines = measure().splitlines()
            shown = [line for line in lines if line.startswith("| ")]
            print("\n".join(shown or lines[-3:]), flush=True)


def train(report: Report, options: argparse.Namespace) -> None:
    """Trains the recipe, scores it, and translates with it on the GPU and on the CPU."""
    workspace = report.folder / TRAINED_RECIPE
    root = f"data.data_root={options.data / 'multi30k' / 'lc_norm_tok'}"
    settings = [root, "training.micro_batch_tokens=auto", *options.overrides]
    chosen = [
        *("--recipe", TRAINED_RECIPE, "--workspace", str(workspace.absolute())),
        *(word for setting in settings for word in ("--set", setting)),
    ]
    report.run("train", mtkit("run", *chosen, "--gpus", "1"), options.seconds)
    metrics = workspace / "metrics.jsonl"
    if metrics.is_file():
        _print_training([json.loads(line) for line in metrics.read_text("utf-8").splitlines()])
    scores = workspace / "scores.json"
    if not scores.is_file():
        return
    rows = json.loads(scores.read_text("utf-8"))["scores"]
    bleu = next(row["value"] for row in rows if row["metric"] == "BLEU")
    print(f"| test2016, BLEU | {bleu:.2f} (Wu et al. 2021: 41.02; on a CPU: 41.10) |")
    if bleu < options.min_bleu:
        report.fail("train", f"BLEU {bleu:.2f}, less than {options.min_bleu:g}")
    text = options.data / "multi30k" / "lc_norm_tok" / "test_2016_flickr.en.gz"
    for device in ("cuda", "cpu"):
        command = [*mtkit("translate", "--model"), str(workspace / "model"), "--device", device]
        began_at = time.monotonic()
        name = f"translate-{device}"
        found = report.run(name, command, 120, gzip.decompress(text.read_bytes()))
        print(f"| {name}, 1,000 captions, start included | {time.monotonic() - began_at:.1f} s |")
        (report.folder / f"{name}.txt").write_text(found, "utf-8")
    outputs = [
        (report.folder / f"translate-{device}.txt").read_text("utf-8").splitlines()
        for device in ("cuda", "cpu")
    ]
    alike = sum(one == other for one, other in zip(*outputs, strict=False))
    print(f"| lines alike on both | {alike:,} of {len(outputs[1]):,} |")


def _print_training(lines: list[dict[str, Any]]) -> None:
    """Prints speed and development BLEU along the way."""
    trained = [line for line in lines if line["kind"] == "train"]
    if not trained:
        return
    last = trained[-1]
    tokens, seconds = last["target_tokens"], last["elapsed_seconds"]
    print("| tokens of targets | seconds | tokens/s, validation included | its median without |")
    speeds = sorted(line.get("target_tokens_per_second", 0.0) for line in trained)
    middle = speeds[len(speeds) // 2]
    print(f"| {tokens:,} | {seconds:,.0f} | {tokens / seconds:,.0f} | {middle:,.0f} |")
    print("| step | " + " | ".join(f"{x['step']:,}" for x in lines if x["kind"] == "dev") + " |")
    scores = " | ".join(f"{x['bleu']:.1f}" for x in lines if x["kind"] == "dev")
    print(f"| development BLEU | {scores} |")


def _count_gpus() -> int:
    import torch  # noqa: PLC0415

    return torch.cuda.device_count()


def main() -> int:
    options = parse_options()
    if not _count_gpus():
        print(NO_GPU)
        return 1
    if options.data is None:
        print("name the data: --data FOLDER, or MTKIT_TEST_DATA")
        return 2
    options.data = options.data.absolute()
    options.folder.mkdir(parents=True, exist_ok=True)
    report = Report(options.folder.absolute())
    {"check": check, "train": train}[options.what](report, options)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
