"""The log of a training: metrics.jsonl, the curves, and TensorBoard or Weights & Biases."""

import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mtkit.console import say, warn
from mtkit.errors import MtkitError, how_to_install
from mtkit.files import write_atomically
from mtkit.recipe import dump_recipe
from mtkit.training.metrics import MetricsLine, Value, read_metrics
from mtkit.training.training_run import TrainingRun

_DRAWING_SHARE = 0.05
"""Maximum share of the time for drawing, if checkpoints come fast."""


_FAULTS = (OSError, RuntimeError, ValueError)
"""From a full disk or a lost connection."""


class Tracker(ABC):
    """Something that draws its own curves; its first error switches it off with a warning.

    A subclass opens the tracker for a run and implements `_log`, which gets the kind, the finite
    numbers and the whole line, `_rewind` and `_close`. `faults` are the exceptions that may occur.
    """

    name: str
    faults: tuple[type[Exception], ...] = _FAULTS
    _is_on = True

    def log(self, kind: str, metrics: Mapping[str, Value]) -> None:
        """Records a line of the metrics file; None is NaN or infinity."""
        numbers = {
            f"{kind}/{key}": float(value)
            for key, value in metrics.items()
            if key != "step" and isinstance(value, (int, float)) and math.isfinite(value)
        }
        self._attempt(self._log, kind, numbers, metrics)

    def rewind(self, step: int) -> None:
        """Drops everything recorded after a step, as far as possible."""
        self._attempt(self._rewind, step)

    def close(self) -> None:
        """Flushes all buffers."""
        self._attempt(self._close)
        self._is_on = False

    def _attempt(self, action: Callable[..., None], *values: Any) -> None:
        if not self._is_on:
            return
        try:
            action(*values)
        except self.faults as error:
            self._is_on = False
            warn(f"{self.name} failed and was switched off: {error}; training continues")

    @abstractmethod
    def _log(self, kind: str, numbers: Mapping[str, float], line: Mapping[str, Value]) -> None: ...

    @abstractmethod
    def _rewind(self, step: int) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


def open_trackers(run: TrainingRun, *, resumed_at: int) -> list[Tracker]:
    """Returns the recipe's trackers; later errors only warn and switch the tracker off.

    With `resumed_at` 0, new curves begin. A tracker that isn't installed or doesn't start is an
    error.
    """
    kinds: dict[str, Callable[[TrainingRun, int], Tracker]] = {
        "tensorboard": _TensorBoard,
        "wandb": _WeightsAndBiases,
    }
    return [kinds[name](run, resumed_at) for name in run.recipe.training.trackers]


class _TensorBoard(Tracker):
    """TensorBoard's files, by torch's `SummaryWriter`, which can drop everything after a step."""

    name = "TensorBoard"

    def __init__(self, run: TrainingRun, resumed_at: int) -> None:
        try:
            # Imported here: an extra, and it takes a second.
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
        except ImportError as error:
            raise _not_installed("tensorboard") from error
        folder = run.workspace.tensorboard
        # A kill loses unflushed lines.
        self._open = partial(SummaryWriter, str(folder), flush_secs=10)
        # Indented, so that the recipe is shown verbatim.
        lines = dump_recipe(run.recipe).splitlines()
        try:
            self._writer: Any = self._open(purge_step=resumed_at + 1)
            self._writer.add_text("recipe", "".join(f"    {each}\n" for each in lines), resumed_at)
        except _FAULTS as error:
            raise MtkitError(
                f"{folder}: can't write TensorBoard's files: {error}",
                "to train without it: --set training.trackers=[]",
            ) from error
        say(f"to see the curves: tensorboard --logdir {folder}")

    def _log(self, kind: str, numbers: Mapping[str, float], line: Mapping[str, Value]) -> None:
        for key, value in numbers.items():
            self._writer.add_scalar(key, value, line["step"])
        if kind == "event":
            self._writer.add_text("events", line["text"], line["step"])

    def _rewind(self, step: int) -> None:
        self._close()
        self._writer = self._open(purge_step=step + 1)

    def _close(self) -> None:
        self._writer.close()


class _WeightsAndBiases(Tracker):
    """A run of Weights & Biases; after a rollback, curves are drawn twice."""

    name = "Weights & Biases"

    def __init__(self, run: TrainingRun, resumed_at: int) -> None:
        try:
            # Imported here: an extra.
            import wandb  # noqa: PLC0415
        except ImportError as error:
            raise _not_installed("wandb") from error
        recipe, workspace = run.recipe, run.workspace
        self.faults = (*_FAULTS, wandb.Error)
        known = workspace.read_manifest().get("wandb", {}).get("run") if resumed_at else None
        score = recipe.training.validation.score_name
        try:
            started = self._started = wandb.init(
                project="mtkit",
                name=recipe.name,
                dir=str(workspace.root),
                config=run.tables,
                id=known,
                resume="allow",
                # stdout and stderr stay mtkit's own, and no source code leaves the machine.
                settings=wandb.Settings(console="off", silent=True, disable_code=True),
            )
            # Its own step can't go back, as training does; mtkit's step is a separate metric.
            started.define_metric("*", step_metric="step")
            best = "min" if score == "loss" else "max"
            started.define_metric(f"dev/{score}", step_metric="step", summary=best)
        except self.faults as error:
            raise MtkitError(
                f"can't start Weights & Biases: {error}",
                "run `wandb login` first; WANDB_MODE=offline keeps its files on this machine; to "
                "train without it: --set training.trackers=[]",
            ) from error
        workspace.record("wandb", {"run": started.id})
        url = started.url
        if started.offline:
            url = f"offline; to upload later: wandb sync {Path(started.dir).parent}"
        say(f"Weights & Biases: {url}")

    def _log(self, kind: str, numbers: Mapping[str, float], line: Mapping[str, Value]) -> None:
        event = {"event": line["text"]} if kind == "event" else {}
        if numbers or event:
            self._started.log({**numbers, **event, "step": line["step"]})

    def _rewind(self, step: int) -> None:
        """Leaves what was sent."""

    def _close(self) -> None:
        self._started.finish()


def _not_installed(name: str) -> MtkitError:
    return MtkitError(
        f'training.trackers = ["{name}"] needs the package {name}, which isn\'t installed',
        how_to_install(name),
    )


@dataclass
class MetricsLog:
    """The run's metrics on disk and in all trackers.

    No error here ends a training: a full disk causes one warning, and later lines are written
    if there is space again.

    Attributes:
        picture: The workspace's curves.
        resumed_at: Step that training resumes from; later lines are dropped, since the steps are
            repeated.
        warm_up_steps: Steps in which the learning rate rises.
        score: The score that ranks checkpoints, by its name in a `dev` line.
        seconds_before_picture: A shorter training is drawn only once, at its end.
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
        """Adds a line of kind `train`, `dev`, `digest` or `event`; `metrics` includes `step`."""
        # JSON has no infinity, but a young model's perplexity can be infinite.
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
        """Drops everything measured after a step, because training went back to it.

        Events stay: they say why.
        """
        self._keep(
            lambda line: line["step"] <= step or line["kind"] == "event",
            f"lines after step {step:,}",
        )
        for tracker in self.trackers:
            tracker.rewind(step)

    def drop(self, kind: str, step: int) -> None:
        """Drops a step's lines of one kind, because they are repeated."""
        self._keep(
            lambda line: (line["kind"], line["step"]) != (kind, step),
            f"{kind} lines of step {step:,}",
        )

    def draw(self) -> None:
        """Draws the lines so far, unless drawing has recently taken too much of the time."""
        began_at = time.monotonic()
        self._is_picture_behind = began_at < self._next_picture_at
        if self._is_picture_behind:
            return
        self._draw()
        spent_seconds = time.monotonic() - began_at
        self._next_picture_at = began_at + spent_seconds / _DRAWING_SHARE

    def _draw(self) -> None:
        try:
            # The import takes half a second; only training should pay for it.
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
        """Draws all lines, if the picture is outdated, and closes the trackers."""
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
            # A full disk or a crash may have truncated the last line.
            line = line if stream.read(1) == b"\n" else "\n" + line
        stream.write(line.encode() + b"\n")


def _rewrite(path: Path, lines: Sequence[MetricsLine]) -> None:
    write_atomically(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
