"""metrics.jsonl, one JSON object a line, and the learning curve drawn from it."""

import json
import math
from pathlib import Path
from typing import Any

from mtkit.console import warn
from mtkit.workspace import write_atomically

LOSSES = ("loss", "nll", "perplexity")
"""What every validation measures; all else that it measures is a score."""
LABELS = {"bleu": "BLEU", "chrf": "chrF"}
"""How scores are written; another's key is its label."""


class MetricsLog:
    """The run's metrics on disk.

    Args:
        path: The workspace's file.
        picture: The workspace's learning curve.
        title: Name of the run.
        resumed_at: Step that training goes on from; what was logged after it is dropped, since the
            steps are done again.
    """

    def __init__(self, path: Path, *, picture: Path, title: str, resumed_at: int) -> None:
        self._path = path
        self._picture = picture
        self._title = title
        kept = [line for line in read_metrics(path) if line["step"] <= resumed_at]
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept))

    def append(self, kind: str, metrics: dict[str, Any]) -> None:
        """Adds a line; `kind` is `train` or `dev`."""
        # JSON has no infinity, which a young model's perplexity can be.
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in metrics.items()
        }
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"kind": kind, **finite}) + "\n")

    def draw(self) -> None:
        """Leaves the learning curve of the lines so far."""
        try:
            draw_learning_curve(read_metrics(self._path), self._picture, title=self._title)
        except (OSError, RuntimeError, ValueError) as error:
            # No picture is worth a training.
            warn(f"{self._picture}: not drawn: {error}")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a metrics file; a last one that a crash cut short is left out."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text("utf-8").split("\n"):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return lines


def draw_learning_curve(metrics: list[dict[str, Any]], path: Path, *, title: str) -> None:
    """Leaves a picture of loss and development scores by step.

    Args:
        metrics: Lines of the metrics file.
        path: A `.png` or `.svg` file.
        title: Name of the run.
    """
    # Imported here: it takes half a second that only training should pay.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    train = [line for line in metrics if line["kind"] == "train"]
    dev = [line for line in metrics if line["kind"] == "dev"]
    figure = Figure(figsize=(8.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    loss_axes, score_axes = figure.subplots(2, 1, sharex=True)
    loss_axes.plot(_column(train, "step"), _column(train, "nll"), label="training")
    loss_axes.plot(_column(dev, "step"), _column(dev, "nll"), "o-", label="development")
    loss_axes.set_ylabel("negative log-likelihood\n(nats per target token)")
    loss_axes.legend()
    no_scores = {"kind", "step", "elapsed_seconds", *LOSSES}
    scores = [key for key in (dev[-1] if dev else {}) if key not in no_scores]
    for key in scores:
        score_axes.plot(_column(dev, "step"), _column(dev, key), "o-", label=LABELS.get(key, key))
    score_axes.set_ylabel("development score")
    score_axes.set_xlabel("step")
    if scores:
        score_axes.legend()
    for axes in (loss_axes, score_axes):
        axes.grid(alpha=0.3)
    loss_axes.set_title(title)
    draft = path.with_name(f".draft-{path.name}")
    figure.savefig(draft, dpi=120)
    draft.replace(path)


def _column(lines: list[dict[str, Any]], key: str) -> list[float]:
    return [math.nan if line.get(key) is None else line[key] for line in lines]
