"""Draws development BLEU of mtkit and of OpenNMT-py by update and by minute of CPU time.

    python benchmarks/quality_curves.py WORKSPACE CLOCK FOLDER SCORES PICTURE

WORKSPACE is mtkit's run and CLOCK what `peers/clock.py` noted of it; FOLDER is OpenNMT-py's of
`onmt_quality.py`, and SCORES a JSON object of its development BLEU by step. Prints both as tables.
"""

import json
import re
import sys
from pathlib import Path

import matplotlib as mpl
from peers.clock import spent_at

mpl.use("agg")
from matplotlib import pyplot as plt

Curve = list[tuple[int, float, float]]
"""Update, minutes of CPU time, BLEU."""


def read_ours(workspace: Path, clock: Path) -> Curve:
    """Returns mtkit's curve; a checkpoint's time is that of its folder."""
    lines = [json.loads(line) for line in (workspace / "metrics.jsonl").read_text().splitlines()]
    bleu = {line["step"]: line["bleu"] for line in lines if line["kind"] == "dev"}
    saved = {
        int(match[1]): (folder / "model.safetensors").stat().st_mtime
        for folder in (workspace / "checkpoints").iterdir()
        if (match := re.fullmatch(r"step-(\d+)", folder.name))
    }
    return [
        (step, spent_at(clock, saved[step]) / 60, score)
        for step, score in sorted(bleu.items())
        if step in saved
    ]


def read_theirs(folder: Path, scores: Path) -> Curve:
    """Returns OpenNMT-py's curve; a checkpoint's time is that of its file."""
    found = json.loads(scores.read_text("utf-8"))
    return [
        (
            int(step),
            spent_at(folder / "clock.jsonl", (folder / f"model_step_{step}.pt").stat().st_mtime)
            / 60,
            score,
        )
        for step, score in found.items()
    ]


def main() -> None:
    workspace, clock, folder, scores, picture = map(Path, sys.argv[1:])
    curves = {"mtkit": read_ours(workspace, clock), "OpenNMT-py": read_theirs(folder, scores)}
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    for name, curve in curves.items():
        print(f"| {name}, updates | " + " | ".join(f"{step:,}" for step, _, _ in curve) + " |")
        print("| minutes | " + " | ".join(f"{minutes:.1f}" for _, minutes, _ in curve) + " |")
        print("| BLEU | " + " | ".join(f"{score:.2f}" for _, _, score in curve) + " |")
        for index, column in enumerate(axes):
            column.plot([point[index] for point in curve], [p[2] for p in curve], "o-", label=name)
    axes[0].set(xlabel="updates", ylabel="development BLEU, greedy")
    axes[1].set(xlabel="minutes of CPU time")
    for column in axes:
        column.grid(alpha=0.3)
        column.legend()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
