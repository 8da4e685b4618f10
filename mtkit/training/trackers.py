"""Where metrics go besides `metrics.jsonl`: TensorBoard, Weights & Biases."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.recipe import dump_recipe
from mtkit.training.metrics import Value
from mtkit.training.training_run import TrainingRun

_FAULTS = (OSError, RuntimeError, ValueError)
"""Of a full disk or a lost connection."""


class Tracker:
    """Something that draws curves for itself; its first fault switches it off, with a warning.

    Args:
        name: Its name.
        faults: What may fail.
        log: Takes the kind and the numbers of a line, and the line.
        rewind: Forgets what it was given after a step, as far as it can.
        close: Writes what is in a buffer.
    """

    def __init__(
        self,
        name: str,
        faults: tuple[type[Exception], ...],
        *,
        log: Callable[[str, Mapping[str, float], Mapping[str, Value]], None],
        rewind: Callable[[int], None],
        close: Callable[[], None],
    ) -> None:
        self._name = name
        self._faults = faults
        self._log, self._rewind, self._close = log, rewind, close
        self._is_on = True

    def log(self, kind: str, metrics: Mapping[str, Value]) -> None:
        """Takes a line of the metrics file; None stands for NaN and infinity."""
        numbers = {
            f"{kind}/{key}": float(value)
            for key, value in metrics.items()
            if key != "step" and isinstance(value, (int, float)) and math.isfinite(value)
        }
        self._attempt(self._log, kind, numbers, metrics)

    def rewind(self, step: int) -> None:
        """Forgets what it was given after a step, as far as it can."""
        self._attempt(self._rewind, step)

    def close(self) -> None:
        """Writes what is in a buffer."""
        self._attempt(self._close)
        self._is_on = False

    def _attempt(self, action: Callable[..., None], *values: Any) -> None:
        if not self._is_on:
            return
        try:
            action(*values)
        except self._faults as error:
            self._is_on = False
            warn(f"{self._name} failed and was switched off: {error}; training continues")


def open_trackers(run: TrainingRun, *, resumed_at: int) -> list[Tracker]:
    """Returns the recipe's trackers; one that fails from here on warns, and is switched off.

    Where training doesn't resume, `resumed_at` is 0, and new curves begin.

    Raises:
        MtkitError: A tracker's package isn't installed, or it doesn't start.
    """
    trackers: list[Tracker] = []
    for name in run.recipe.training.trackers:
        match name:
            case "tensorboard":
                trackers.append(_open_tensorboard(run, resumed_at))
            case "wandb":
                trackers.append(_open_wandb(run, resumed_at))
    return trackers


class _TensorBoard:
    """TensorBoard's files, by torch's `SummaryWriter`; it forgets what they hold after a step."""

    def __init__(self, open_writer: Callable[..., Any], folder: Path, resumed_at: int) -> None:
        self._open_writer = open_writer
        self._folder = folder
        self._writer = self._open(resumed_at)

    def _open(self, resumed_at: int) -> Any:
        # A kill loses what was not yet flushed.
        return self._open_writer(str(self._folder), purge_step=resumed_at + 1, flush_secs=10)

    def describe(self, text: str, step: int) -> None:
        """Shows a text as it is, under the name `recipe`."""
        indented = "".join(f"    {line}\n" for line in text.splitlines())
        self._writer.add_text("recipe", indented, step)

    def log(self, kind: str, numbers: Mapping[str, float], metrics: Mapping[str, Value]) -> None:
        for key, value in numbers.items():
            self._writer.add_scalar(key, value, metrics["step"])
        if kind == "event":
            self._writer.add_text("events", metrics["text"], metrics["step"])

    def rewind(self, step: int) -> None:
        self._writer.close()
        self._writer = self._open(step)

    def close(self) -> None:
        self._writer.close()


def _open_tensorboard(run: TrainingRun, resumed_at: int) -> Tracker:
    try:
        # Imported here: an extra, and it takes a second.
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError as error:
        raise _not_installed("tensorboard") from error
    folder = run.workspace.tensorboard
    try:
        tracker = _TensorBoard(SummaryWriter, folder, resumed_at)
        tracker.describe(dump_recipe(run.recipe), resumed_at)
    except _FAULTS as error:
        raise MtkitError(
            f"{folder}: can't write TensorBoard's files: {error}",
            "to train without it: --set training.trackers=[]",
        ) from error
    say(f"to see the curves: tensorboard --logdir {folder}")
    return Tracker(
        "TensorBoard", _FAULTS, log=tracker.log, rewind=tracker.rewind, close=tracker.close
    )


def _open_wandb(run: TrainingRun, resumed_at: int) -> Tracker:
    try:
        # Imported here: an extra.
        import wandb  # noqa: PLC0415
    except ImportError as error:
        raise _not_installed("wandb") from error
    recipe, workspace = run.recipe, run.workspace
    faults = (*_FAULTS, wandb.Error)
    known = workspace.read_manifest().get("wandb", {}).get("run") if resumed_at else None
    try:
        started = wandb.init(
            project="mtkit",
            name=recipe.name,
            dir=str(workspace.root),
            config=run.tables,
            id=known,
            resume="allow",
            # stdout and stderr stay mtkit's own, and no source code leaves the machine.
            settings=wandb.Settings(console="off", silent=True, disable_code=True),
        )
        # Its own count of steps can't go back, as training does; the step is a metric like others.
        started.define_metric("*", step_metric="step")
        score = recipe.training.validation.metric
        best = "min" if score == "loss" else "max"
        started.define_metric(f"dev/{score}", step_metric="step", summary=best)
    except faults as error:
        raise MtkitError(
            f"can't start Weights & Biases: {error}",
            "run `wandb login` first; WANDB_MODE=offline keeps its files on this machine; to train "
            "without it: --set training.trackers=[]",
        ) from error
    workspace.record("wandb", {"run": started.id})
    place = (
        f"offline; to upload later: wandb sync {Path(started.dir).parent}"
        if started.offline
        else started.url
    )
    say(f"Weights & Biases: {place}")

    def log(kind: str, numbers: Mapping[str, float], metrics: Mapping[str, Value]) -> None:
        event = {"event": metrics["text"]} if kind == "event" else {}
        if numbers or event:
            started.log({**numbers, **event, "step": metrics["step"]})

    # What was sent stays: the curve is drawn twice over steps that training went back over.
    return Tracker("Weights & Biases", faults, log=log, rewind=lambda _: None, close=started.finish)


def _not_installed(name: str) -> MtkitError:
    return MtkitError(
        f'training.trackers = ["{name}"] needs the package {name}, which isn\'t installed',
        f"pip install 'mtkit[{name}]'",
    )
