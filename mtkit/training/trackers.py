"""Where metrics go besides `metrics.jsonl`: TensorBoard, Weights & Biases."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.recipe import dump_recipe
from mtkit.training.metrics import Value
from mtkit.training.training_run import TrainingRun

_FAULTS = (OSError, RuntimeError, ValueError)
"""Of a full disk or a lost connection."""


class Tracker(Protocol):
    """Something that draws curves for itself."""

    def log(self, kind: str, metrics: Mapping[str, Value]) -> None:
        """Takes a line of the metrics file; None stands for NaN and infinity."""
        ...

    def rewind(self, step: int) -> None:
        """Forgets what it was given after a step, as far as it can."""
        ...

    def close(self) -> None:
        """Writes what is in a buffer."""
        ...


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

    def log(self, kind: str, metrics: Mapping[str, Value]) -> None:
        for key, value in _numbers(kind, metrics):
            self._writer.add_scalar(key, value, metrics["step"])
        if kind == "event":
            self._writer.add_text("events", metrics["text"], metrics["step"])

    def rewind(self, step: int) -> None:
        self._writer.close()
        self._writer = self._open(step)

    def close(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    """A run at Weights & Biases, whose summary has the best value of `score`."""

    def __init__(self, run: Any, score: str) -> None:
        self._run = run
        # Its own count of steps can't go back, as training does; the step is a metric like others.
        run.define_metric("*", step_metric="step")
        best = "min" if score == "loss" else "max"
        run.define_metric(f"dev/{score}", step_metric="step", summary=best)

    def log(self, kind: str, metrics: Mapping[str, Value]) -> None:
        facts: dict[str, Value] = dict(_numbers(kind, metrics))
        if kind == "event":
            facts["event"] = metrics["text"]
        if facts:
            self._run.log({**facts, "step": metrics["step"]})

    def rewind(self, step: int) -> None:
        """Does nothing: what was sent stays, and the curve is drawn twice over these steps."""

    def close(self) -> None:
        self._run.finish()


class _Switchable:
    """A tracker that is switched off, with a warning that names it, at the first of some faults."""

    def __init__(self, name: str, tracker: Tracker, faults: tuple[type[Exception], ...]) -> None:
        self._name = name
        self._tracker: Tracker | None = tracker
        self._faults = faults

    def log(self, kind: str, metrics: Mapping[str, Value]) -> None:
        self._attempt(lambda tracker: tracker.log(kind, metrics))

    def rewind(self, step: int) -> None:
        self._attempt(lambda tracker: tracker.rewind(step))

    def close(self) -> None:
        self._attempt(lambda tracker: tracker.close())
        self._tracker = None

    def _attempt(self, action: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            action(self._tracker)
        except self._faults as error:
            self._tracker = None
            warn(f"{self._name} failed and was switched off: {error}; training continues")


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
    return _Switchable("TensorBoard", tracker, _FAULTS)


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
        tracker = _WeightsAndBiases(started, recipe.training.validation.metric)
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
    return _Switchable("Weights & Biases", tracker, faults)


def _not_installed(name: str) -> MtkitError:
    return MtkitError(
        f'training.trackers = ["{name}"] needs the package {name}, which isn\'t installed',
        f"pip install 'mtkit[{name}]'",
    )


def _numbers(kind: str, metrics: Mapping[str, Value]) -> Iterator[tuple[str, float]]:
    """Yields each number of a line but its step, named by its kind."""
    for key, value in metrics.items():
        if key != "step" and isinstance(value, (int, float)) and math.isfinite(value):
            yield f"{kind}/{key}", float(value)
