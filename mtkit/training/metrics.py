"""The lines of metrics.jsonl, one JSON object each, and how they are read."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Required, TypedDict

from mtkit.files import check_file
from mtkit.units import format_duration, plural

LOSSES = ("loss", "nll", "perplexity", "bits_per_character")
"""Metrics of every validation, except that only causal language models have the last. All other
metrics are scores."""
LABELS = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "comet": "COMET",
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "masked_accuracy": "masked accuracy",
    "next_sentence_accuracy": "next-sentence accuracy",
    "f1": "F1",
    "exact_match": "exact match",
}
"""Display names of scores; other scores are shown by their key."""
Value = float | str | None
"""The value of a key; None for NaN or infinity."""


class MetricsLine(TypedDict, total=False):
    """A line. Its other keys are losses, scores and speeds; `number` reads them.

    Attributes:
        kind: `train`, `dev`, `digest` or `event`.
        step: Updates made.
        epoch: Epochs finished.
        target_tokens: Seen so far.
        elapsed_seconds: Of training so far.
        text: Only in an event.
    """

    kind: Required[str]
    step: Required[int]
    epoch: int
    target_tokens: int
    elapsed_seconds: float
    text: str


def number(line: MetricsLine, key: str) -> float | None:
    """Returns the number under a key; None if there is none."""
    value = line.get(key)
    return value if isinstance(value, int | float) else None


def restore_sign(metric: str, score: float) -> float:
    """Returns the metric from a score: a loss ranks checkpoints by its negative."""
    return -score if metric == "loss" else score


def read_metrics(path: Path) -> list[MetricsLine]:
    """Returns the lines of a metrics file; skips truncated and invalid lines."""
    if not path.exists():
        return []
    check_file(path)
    lines: list[MetricsLine] = []
    for line in path.read_text("utf-8", errors="replace").split("\n"):
        try:
            content = json.loads(line, parse_constant=lambda _: None, parse_float=_parse_finite)
        except (RecursionError, ValueError):
            continue
        match content:
            case {"step": int(), "kind": str()}:
                lines.append(content)
    return lines


def _parse_finite(digits: str) -> float | None:
    return value if math.isfinite(value := float(digits)) else None


def list_scores(dev: Sequence[MetricsLine], score: str) -> list[str]:
    """Returns the names of the development scores; the one that ranks checkpoints comes first."""
    non_scores = {"kind", "step", "elapsed_seconds", *LOSSES}
    names = dict.fromkeys(
        key
        for line in dev
        for key in line
        if key not in non_scores and number(line, key) is not None
    )
    return sorted(names, key=lambda name: name != score)


def describe_length(metrics: Sequence[MetricsLine]) -> str:
    """Returns the length of the training in steps, epochs, tokens and time."""
    train = [line for line in metrics if line["kind"] == "train"]
    if not train:
        return ""
    last = train[-1]
    # The last update may come after the last logged line.
    facts = [f"{max(line['step'] for line in metrics):,} steps"]
    if last.get("epoch"):
        facts.append(plural(last["epoch"], "epoch"))
    if last.get("target_tokens"):
        millions = last["target_tokens"] / 1e6
        facts.append(f"{millions:,.{0 if millions >= 100 else 1}f} million target tokens")
    if last.get("elapsed_seconds"):
        facts.append(format_duration(last["elapsed_seconds"]))
    return " · ".join(facts)
