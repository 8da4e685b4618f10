"""The view of a training: live on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from mtkit.console import open_console, print_line
from mtkit.training.metrics import LABELS, LOSSES
from mtkit.training.validation import ValidationResult
from mtkit.units import format_duration, format_memory

_UPDATE = {
    "loss": "loss {:.3f}",
    "perplexity": "ppl {:.2f}",
    "bits_per_character": "{:.3f} bits/character",
    "learning_rate": "lr {:.2e}",
    "target_tokens_per_second": "{:,.0f} target tokens/s",
    "padding": "padding {:.0%}",
}


_MAX_PLAIN = 1e9
"""A number above it is written with an exponent: a perplexity can have 300 digits."""


def _format(text: str, value: float) -> str:
    plain = text.format(value)
    return text.replace(":.2f", ":.2e").format(value) if abs(value) > _MAX_PLAIN else plain


class ProgressView:
    """Shows how far training is, how well and how fast it goes, and how long it will take."""

    def __init__(self, max_steps: int, *, is_shown: bool, warm_up_steps: int = 0) -> None:
        self._max_steps = max_steps
        self._is_shown = is_shown
        self._warm_up_steps = warm_up_steps
        self._console: Console = open_console()
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("step {task.completed:,} of {task.total:,}"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=self._console,
        )
        self._task: TaskID = self._bar.add_task("", total=max_steps)
        self._measured = Text()
        self._best_step: int | None = None
        self._first_step: int | None = None
        self._started_at = 0.0

    def __enter__(self) -> "ProgressView":
        if self._is_shown and self._console.is_terminal:
            # Below the bar there is room for all that is measured, on a narrow terminal too.
            self._live = Live(Group(self._bar, self._measured), console=self._console)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show_step(self, step: int) -> None:
        """Moves a terminal's bar; off a terminal an update is shown when it is logged."""
        if self._is_shown and step == self._warm_up_steps:
            self._print(f"warm-up ends at step {step:,}")
        if self._live is not None:
            self._bar.update(self._task, completed=step)

    def show_update(self, metrics: Mapping[str, float]) -> None:
        """Shows a logged update, and the time left; a missing number isn't shown."""
        if not self._is_shown:
            return
        step = int(metrics["step"])
        measured = describe_update(metrics)
        left = self._time_left(step)
        if self._live is not None:
            self._bar.update(self._task, completed=step, description=left)
            self._measured.plain = "  ".join(measured)
        else:
            words = [f"step {step:,} of {self._max_steps:,}", *measured, *([left] if left else [])]
            self._print("  ".join(words))

    def show_validation(self, step: int, validation: ValidationResult, *, is_best: bool) -> None:
        """Shows development loss and scores, whether they are the best, and a few sentences."""
        if not self._is_shown:
            return
        words = [
            *(f"{LABELS.get(key, key)} {value:.2f}" for key, value in validation.scores.items()),
            *describe_update({key: validation.metrics.get(key) for key in LOSSES}),
        ]
        if is_best:
            self._best_step = step
            words.append("(best so far)")
        elif self._best_step is not None:
            words.append(f"(best at step {self._best_step:,})")
        style = "bold" if is_best else ""
        self._print(f"dev at step {step:,}: " + "  ".join(words), style=style)
        for sample in validation.samples:
            for name, text in sample.items():
                self._print(f"  {name:<10} {text}")

    def _print(self, text: str, style: str = "") -> None:
        print_line(self._console, (text, style))

    def _time_left(self, step: int) -> str:
        """Returns how long the rest takes at the speed so far; empty where it isn't known yet."""
        if self._first_step is None or step <= self._first_step:
            self._first_step, self._started_at = step, time.monotonic()
            return ""
        seconds_per_step = (time.monotonic() - self._started_at) / (step - self._first_step)
        return f"{format_duration(seconds_per_step * (self._max_steps - step))} left"


def describe_update(metrics: Mapping[str, float | None]) -> list[str]:
    """Returns the numbers of an update in words, each with its unit."""
    words = [
        _format(text, value)
        for key, text in _UPDATE.items()
        if (value := metrics.get(key)) is not None
    ]
    if (memory_bytes := metrics.get("memory_bytes")) is not None:
        words.append(f"memory {format_memory(memory_bytes)}")
    if skipped := metrics.get("skipped"):
        words.append(f"{skipped:,} skipped")
    return words
