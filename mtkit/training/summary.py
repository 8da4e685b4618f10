"""What a person reads when a training begins and when it ends."""

import shlex
from collections import Counter
from collections.abc import Sequence

import torch
from torch import nn

from mtkit.console import say, warn
from mtkit.evaluation.scores import score_corpus
from mtkit.model.parameters import find_part
from mtkit.network.device import is_imitated
from mtkit.recipe.objective import Objective
from mtkit.recipe.precision import Precision
from mtkit.recipe.training import Training
from mtkit.training.checkpoint import Checkpoint, TrainingState
from mtkit.training.learner import Learner
from mtkit.training.loop import is_finished
from mtkit.training.metrics import LABELS, restore_sign
from mtkit.training.schedule import note_warmup
from mtkit.training.training_run import TrainingRun
from mtkit.units import format_duration, plural

_LOSS_UNITS: dict[Objective, str] = {
    "translation": " per target token",
    "causal-lm": " per token",
    "denoising": " per target token",
    # The mean over hidden tokens, plus that over pairs of segments.
    "masked-lm": "",
    # The language model's own loss may be in it.
    "classification": " per text",
}


def show_beginning(
    name: str, training: Training, learner: Learner[nn.Module], device: torch.device
) -> None:
    """Prints what is trained, and warns of settings that slow it down."""
    precision = learner.working.precision
    warn_of_slow_arithmetic(precision, device)
    if note := note_warmup(training.schedule, max_steps=training.max_steps):
        warn(note)
    say(f"training {name}: {describe_parameters(learner.model)}; {precision}")


def warn_of_slow_arithmetic(precision: Precision, device: torch.device) -> None:
    """Warns of bfloat16 on a processor that only imitates it, many times slower (docs/log.md)."""
    if precision == "bf16" and is_imitated(device):
        warn(
            "this CPU has no bfloat16 arithmetic, and emulating it is many times slower: use "
            "--set training.precision=fp32"
        )


def describe_parameters(model: nn.Module) -> str:
    """Returns how many weights a network has, and which part has them, as a line."""
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
    """Returns where an earlier session got, as a line; `metric` ranks checkpoints."""
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
    """Prints the result of a training, and the commands that come next.

    `best` is the checkpoint that `model/` holds; None where none has been validated. `options` in a
    command select the same recipe and workspace.
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
    # Whoever started its processes says how to resume a stopped training.
    commands = [shlex.join(["mtkit", "average", *options])] if has_ended else []
    # A causal language model continues its lines.
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
    recipe, metric = run.recipe, run.recipe.training.validation.metric
    value = restore_sign(metric, score)
    if metric == "loss":
        smoothing = f"label smoothing {recipe.training.label_smoothing:g}"
        return f"loss {value:.4f}{_LOSS_UNITS[recipe.objective]}, {smoothing}"
    if recipe.objective == "classification" or recipe.data.is_trees:
        return f"{LABELS[metric]} {value:.2f} %"
    settings = recipe.evaluation.model_copy(update={"metrics": (metric,)})
    # The signature says nothing of the text that was scored.
    language = recipe.data.target_language
    [named] = score_corpus(["a"], [["a"]], settings, target_language=language)
    return f"{named.name} {value:.2f} ({named.signature})"
