"""The output of a training: its live view on a terminal, its beginning and its summary."""

import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text
from torch import nn

from mtkit.console import open_console, print_line, say, warn
from mtkit.evaluation.scores import score_corpus
from mtkit.model.parameters import find_part
from mtkit.network.device import emulates_bfloat16
from mtkit.recipe.corpora import Corpus, corpus_names
from mtkit.recipe.objective import Objective
from mtkit.recipe.precision import TrainingPrecision
from mtkit.recipe.training import Training
from mtkit.recipe.training_stages import list_stages
from mtkit.training.checkpoint import Checkpoint, TrainingState, is_finished
from mtkit.training.learner import Learner
from mtkit.training.metrics import LABELS, LOSSES, restore_sign
from mtkit.training.schedule import note_warmup
from mtkit.training.training_run import TrainingRun
from mtkit.training.validation import ValidationResult
from mtkit.units import format_duration, format_memory, plural

_UPDATE = {
    "loss": "loss {:.3f}",
    "perplexity": "ppl {:.2f}",
    "divergence": "divergence {:.3f}",
    "bits_per_character": "{:.3f} bits/character",
    "learning_rate": "lr {:.2e}",
    "target_tokens_per_second": "{:,.0f} target tokens/s",
    "padding": "padding {:.0%}",
}


_MAX_PLAIN = 1e9
"""Larger numbers get an exponent: a perplexity can have 300 digits."""


def _format(text: str, value: float) -> str:
    plain = text.format(value)
    return text.replace(":.2f", ":.2e").format(value) if abs(value) > _MAX_PLAIN else plain


def count_validations(training: Training, step: int, seconds_per_update: float) -> int:
    """Returns the validations from a step, its own counted, to the end of a training."""
    if training.checkpoint_minutes is None:
        every = training.checkpoint_every
        return math.ceil(training.max_steps / every) - max(0, step - 1) // every
    seconds = (training.max_steps - step) * seconds_per_update
    return math.ceil(seconds / (60.0 * training.checkpoint_minutes))


def describe_stages(training: Training, corpora: Sequence[Corpus]) -> dict[int, str]:
    """Returns a line for each stage, by the updates before it; none for a recipe without stages."""
    if training.stages is None:
        return {}
    names, max_steps = corpus_names(corpora), training.max_steps
    stages = [stage for stage in list_stages(training.stages, corpora) if stage.first < max_steps]
    return {
        stage.first: f"stage {number} of {len(stages)}, from step {stage.first + 1:,} on: weights "
        + ", ".join(f"{each} {weight:g}" for each, weight in zip(names, stage.weights, strict=True))
        for number, stage in enumerate(stages, 1)
    }


class ProgressView:
    """Shows the progress of training, its metrics and speed, and the time left.

    `stages` are lines to print after the updates before a stage. `count_left` returns the
    validations that follow a step, from the seconds of an update.
    """

    def __init__(
        self,
        max_steps: int,
        *,
        is_shown: bool,
        warm_up_steps: int = 0,
        stages: Mapping[int, str] | None = None,
        count_left: Callable[[int, float], int] = lambda *_: 0,
    ) -> None:
        self._max_steps = max_steps
        self._count_left = count_left
        self._validation_seconds: float | None = None
        self._is_shown = is_shown
        self._warm_up_steps = warm_up_steps
        self._stages = stages or {}
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
            # All metrics fit below the bar, even on a narrow terminal.
            self._live = Live(Group(self._bar, self._measured), console=self._console)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show_step(self, step: int) -> None:
        """Moves the bar; without a terminal an update is shown when it is logged."""
        if self._is_shown and step == self._warm_up_steps:
            self._print(f"warm-up ends at step {step:,}")
        if self._is_shown and step in self._stages:
            self._print(self._stages[step])
        if self._live is not None:
            self._bar.update(self._task, completed=step)

    def show_update(self, metrics: Mapping[str, float]) -> None:
        """Shows a logged update and the time left, without missing numbers."""
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

    def leave_out(self, seconds: float) -> None:
        """Excludes a validation from the seconds of an update; the next ones take as long."""
        self._started_at += seconds
        self._validation_seconds = seconds

    def _print(self, text: str, style: str = "") -> None:
        print_line(self._console, (text, style))

    def _time_left(self, step: int) -> str:
        """Returns the time left at the speed so far; empty if unknown yet."""
        if self._first_step is None or step <= self._first_step:
            self._first_step, self._started_at = step, time.monotonic()
            return ""
        seconds_per_step = (time.monotonic() - self._started_at) / (step - self._first_step)
        seconds = seconds_per_step * (self._max_steps - step)
        num_validations = self._count_left(step, seconds_per_step)
        if num_validations and self._validation_seconds is None:
            left = plural(num_validations, "validation")
            return f"{format_duration(seconds)} left, without {left}"
        seconds += num_validations * (self._validation_seconds or 0.0)
        return f"{format_duration(seconds)} left"


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


_LOSS_UNITS: dict[Objective, str] = {
    "causal-lm": " per token",
    # The mean over masked tokens, plus that over pairs of segments.
    "masked-lm": "",
    # It may include the language model's own loss.
    "classification": " per text",
}
"""Of objectives whose loss isn't per target token."""


def show_start(
    name: str, training: Training, learner: Learner[nn.Module], device: torch.device
) -> None:
    """Prints what is trained, and warns of settings that slow it down."""
    precision = learner.working.precision
    warn_of_slow_arithmetic(precision, device, is_auto=training.precision == "auto")
    if note := note_warmup(training.schedule, max_steps=training.max_steps):
        warn(note)
    say(f"training {name}: {describe_parameters(learner.model)}; {precision}")


def warn_of_slow_arithmetic(
    precision: TrainingPrecision, device: torch.device, *, is_auto: bool = False
) -> None:
    """Warns of 16 bits on a CPU that only emulates them, and of fp32 on a GPU without bf16."""
    if is_auto and precision == "fp32" and device.type == "cuda":
        warn(
            "this GPU has no bf16 arithmetic: training in fp32; fp16 may be several times as fast: "
            "--set training.precision=fp16"
        )
    # Many times slower (docs/log.md).
    is_fp16 = precision == "fp16" and device.type == "cpu"
    if is_fp16 or (precision == "bf16" and emulates_bfloat16(device)):
        warn(
            f"{precision} is emulated on this CPU, which is many times slower: use "
            "--set training.precision=auto"
        )


def describe_parameters(model: nn.Module) -> str:
    """Returns a network's number of weights, in total and by part, as a line."""
    counts = Counter[str](encoder=0, decoder=0, embeddings=0)
    for name, weight in model.named_parameters():
        part = find_part(name)
        counts["embeddings" if part == "output" else part] += weight.numel()
    total = counts.total()
    parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    frozen = "" if learning == total else f"; {total - learning:,} of them frozen"
    return f"{total:,} parameters: {parts}{frozen}"


def describe_resumed(metric: str, state: TrainingState, num_updates: int) -> str:
    """Returns where an earlier session ended, as a line; `metric` ranks checkpoints."""
    best = ""
    if state.best_score is not None:
        value = restore_sign(metric, state.best_score)
        since = plural(state.num_without_best, "checkpoint")
        best = f", best development {LABELS.get(metric, metric)} {value:.2f}, {since} since"
    skipped = f", {plural(state.num_skipped, 'update')} skipped" if state.num_skipped else ""
    factor = state.rate_factor
    slower = f", at {factor:g} times the learning rate" if factor != 1.0 else ""
    return (
        f"resuming from step {state.step:,}: epoch {state.epoch + 1}, update {state.position:,} of "
        f"{num_updates:,}, {format_duration(state.elapsed_seconds)} of training{best}"
        f"{skipped}{slower}"
    )


def show_summary(
    run: TrainingRun, state: TrainingState, best: Checkpoint | None, *, options: Sequence[str]
) -> None:
    """Prints the result of a training, and the next commands.

    `best` is the checkpoint in `model/`; None if none has been validated. `options` select the same
    recipe and workspace in the commands.
    """
    training, workspace = run.recipe.training, run.workspace
    has_ended = is_finished(training, state)
    epochs = f"{plural(state.epoch, 'epoch')}, " if state.epoch else ""
    facts = {
        "updates": f"{state.step:,}, {epochs}{state.target_tokens:,} target tokens",
        "time": format_duration(state.elapsed_seconds),
    }
    if state.num_skipped:
        facts["skipped"] = (
            f"{plural(state.num_skipped, 'update')} with a loss or gradient of NaN or infinity"
        )
    if best is not None and best.score is not None:
        facts["best score"] = f"{_describe_score(run, best.score)}, at step {best.state.step:,}"
        facts["model"] = f"{workspace.model}, the checkpoint of step {best.state.step:,}"
    if workspace.curves.is_file():
        facts["curves"] = str(workspace.curves)
    # The launcher prints how to resume a stopped training.
    commands = [shlex.join(["mtkit", "average", *options])] if has_ended else []
    # A masked language model can't translate; a causal one continues its lines.
    if best is not None and run.recipe.objective != "masked-lm":
        commands.append('echo "..." | ' + shlex.join(["mtkit", "translate", *options]))
    if not has_ended:
        say(
            f"stopped at step {state.step:,} of {training.max_steps:,}; a checkpoint "
            "was saved, and the same command resumes from it"
        )
    elif state.step < training.max_steps:
        say(f"finished at step {state.step:,}: the development score has stopped improving")
    else:
        say(f"finished at step {state.step:,}")
    for name, fact in facts.items():
        say(f"  {name:<12}{fact}")
    if commands:
        say("next:")
    for command in commands:
        say(f"  {command}")


def _describe_score(run: TrainingRun, score: float) -> str:
    """Returns a checkpoint's score in the metric's own sign, with all that it depends on."""
    recipe, metric = run.recipe, run.recipe.training.validation.score_name
    value = restore_sign(metric, score)
    if metric == "loss":
        smoothing = f"label smoothing {recipe.training.label_smoothing:g}"
        unit = _LOSS_UNITS.get(recipe.objective, " per target token")
        return f"loss {value:.4f}{unit}, {smoothing}"
    if recipe.objective == "classification" or recipe.data.is_trees:
        return f"{LABELS[metric]} {value:.2f} %"
    learned = recipe.training.validation.learned
    if learned is not None:
        return f"{LABELS[metric]} {value:.2f} ({learned})"
    settings = recipe.evaluation.model_copy(update={"metrics": (metric,)})
    # The signature doesn't depend on the text that is scored.
    language = recipe.data.target_language
    [named] = score_corpus(["a"], [["a"]], settings, target_language=language)
    return f"{named.name} {value:.2f} ({named.signature})"
