"""What a person sees while a model trains: a live line on a terminal, plain lines elsewhere."""

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from mtkit.console import open_console
from mtkit.training.metrics import LABELS
from mtkit.training.validation import Validation


class ProgressView:
    """Shows how far training is, how fast it goes, and how long it will take.

    Args:
        max_steps: Where it ends at the latest.
        is_shown: Whether this process speaks.
    """

    def __init__(self, max_steps: int, *, is_shown: bool) -> None:
        self._max_steps = max_steps
        self._is_shown = is_shown
        self._console: Console = open_console()
        self._live: Progress | None = None
        self._task = TaskID(0)
        self._started_at = time.monotonic()
        self._first_step: int | None = None

    def __enter__(self) -> "ProgressView":
        if self._is_shown and self._console.is_terminal:
            self._live = Progress(
                TextColumn("step {task.completed:,} of {task.total:,}"),
                BarColumn(),
                TextColumn("{task.description}"),
                console=self._console,
            )
            self._live.start()
            self._task = self._live.add_task("", total=self._max_steps)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show_step(self, step: int) -> None:
        """Moves a terminal's bar; off a terminal an update is shown when it is logged."""
        if self._live is not None:
            self._live.update(self._task, completed=step)

    def show_update(self, metrics: dict[str, float]) -> None:
        """Shows a logged update: loss, rate, speed, time left."""
        if not self._is_shown:
            return
        step = int(metrics["step"])
        left = self._time_left(step)
        text = (
            f"loss {metrics['loss']:.3f}  ppl {metrics['perplexity']:.2f}  "
            f"lr {metrics['learning_rate']:.2e}  "
            f"{metrics['target_tokens_per_second']:,.0f} target tokens/s  {left} left"
        )
        if self._live is not None:
            self._live.update(self._task, completed=step, description=text)
        else:
            self._print(f"step {step:,} of {self._max_steps:,}  {text}")

    def show_validation(self, step: int, validation: Validation, *, is_best: bool) -> None:
        """Shows development loss and scores, and a few sentences."""
        if not self._is_shown:
            return
        metrics = validation.metrics
        words = [
            *(f"{LABELS.get(key, key)} {value:.2f}" for key, value in validation.scores.items()),
            f"loss {metrics['loss']:.3f}",
            f"ppl {metrics['perplexity']:.2f}",
            *(["(best so far)"] if is_best else []),
        ]
        self._print(f"dev at step {step:,}: " + "  ".join(words))
        for sample in validation.samples:
            self._print(f"  source     {sample.source}")
            self._print(f"  reference  {sample.reference}")
            self._print(f"  hypothesis {sample.hypothesis}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def _time_left(self, step: int) -> str:
        if self._first_step is None or step <= self._first_step:
            self._first_step, self._started_at = step, time.monotonic()
            return "?"
        seconds_per_step = (time.monotonic() - self._started_at) / (step - self._first_step)
        return str(timedelta(seconds=round(seconds_per_step * (self._max_steps - step))))
