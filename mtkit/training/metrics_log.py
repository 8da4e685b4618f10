"""The log of a training: metrics.jsonl, and what is fed from it: the picture, the trackers."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from mtkit.console import warn
from mtkit.files import write_atomically
from mtkit.training.metrics import MetricsLine, Value, read_metrics
from mtkit.training.trackers import Tracker

_DRAWING_SHARE = 0.05
"""Of the time, which drawing may take while checkpoints come fast."""


@dataclass
class MetricsLog:
    """The run's metrics on disk, and wherever else they go.

    Nothing that fails here ends a training: a full disk is warned of once, and a later line may
    find room again.

    Attributes:
        path: The workspace's file.
        picture: The workspace's curves.
        title: Name of the run.
        resumed_at: Step that training resumes from; lines after it are dropped, since the steps are
            done again.
        warm_up_steps: Steps in which the learning rate rises.
        score: The score that ranks checkpoints, by its name in a `dev` line.
        trackers: Where each line goes as well.
        seconds_before_picture: A training that takes less is drawn once, at its end.
    """

    path: Path
    _: KW_ONLY
    picture: Path
    title: str
    resumed_at: int
    warm_up_steps: int = 0
    score: str = "bleu"
    trackers: Sequence[Tracker] = ()
    seconds_before_picture: float = 10.0

    def __post_init__(self) -> None:
        self._warned_of: set[Path] = set()
        self._next_picture_at = time.monotonic() + self.seconds_before_picture
        self._is_picture_behind = False
        lines = [line for line in read_metrics(self.path) if line["step"] <= self.resumed_at]
        _rewrite(self.path, lines)

    def append(self, kind: str, metrics: Mapping[str, Value]) -> None:
        """Adds a line.

        Args:
            kind: `train`, `dev`, `digest` or `event`.
            metrics: Its keys and values; `step` is among them.
        """
        # JSON has no infinity, which a young model's perplexity can be.
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in metrics.items()
        }
        line = json.dumps({"kind": kind, **finite}, allow_nan=False)
        try:
            _append_line(self.path, line)
        except OSError as error:
            self._warn_once(self.path, f"could not write a line: {error}")
        for tracker in self.trackers:
            tracker.log(kind, finite)

    def rewind(self, step: int) -> None:
        """Drops what was measured after a step, since training went back to it.

        Events stay: they say why.
        """
        self._keep(
            lambda line: line["step"] <= step or line["kind"] == "event",
            f"lines after step {step:,}",
        )
        for tracker in self.trackers:
            tracker.rewind(step)

    def drop(self, kind: str, step: int) -> None:
        """Drops a step's lines of one kind, since they come again."""
        self._keep(
            lambda line: (line["kind"], line["step"]) != (kind, step),
            f"{kind} lines of step {step:,}",
        )

    def draw(self) -> None:
        """Draws the lines so far, if that hasn't taken much of the time lately."""
        began_at = time.monotonic()
        self._is_picture_behind = began_at < self._next_picture_at
        if self._is_picture_behind:
            return
        self._draw()
        spent_seconds = time.monotonic() - began_at
        self._next_picture_at = began_at + spent_seconds / _DRAWING_SHARE

    def _draw(self) -> None:
        try:
            # It takes half a second that only training should pay.
            from mtkit.training.curves import draw_curves  # noqa: PLC0415

            draw_curves(
                read_metrics(self.path),
                self.picture,
                title=self.title,
                warm_up_steps=self.warm_up_steps,
                score=self.score,
            )
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            self._warn_once(self.picture, f"could not draw the curves: {error}")

    def close(self) -> None:
        """Draws all lines, if the picture is behind, and closes the trackers."""
        if self._is_picture_behind:
            self._draw()
        for tracker in self.trackers:
            tracker.close()

    def _keep(self, is_kept: Callable[[MetricsLine], bool], others: str) -> None:
        try:
            _rewrite(self.path, [line for line in read_metrics(self.path) if is_kept(line)])
        except OSError as error:
            self._warn_once(self.path, f"could not drop {others}: {error}")

    def _warn_once(self, path: Path, text: str) -> None:
        if path not in self._warned_of:
            self._warned_of.add(path)
            warn(f"{path}: {text}; training continues")


def _append_line(path: Path, line: str) -> None:
    with path.open("ab+") as stream:
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            # A full disk or a crash may have cut the last line short.
            line = line if stream.read(1) == b"\n" else "\n" + line
        stream.write(line.encode() + b"\n")


def _rewrite(path: Path, lines: Sequence[MetricsLine]) -> None:
    write_atomically(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
