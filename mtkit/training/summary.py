"""What a person is told when a training ends: what it took, what it gave, and what comes next."""

import shlex
from collections.abc import Sequence

from mtkit.console import say
from mtkit.evaluation.scores import score_corpus
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import Checkpoint, TrainingState
from mtkit.units import format_duration, plural
from mtkit.workspace import Workspace


def show_summary(
    recipe: Recipe,
    workspace: Workspace,
    state: TrainingState,
    best: Checkpoint | None,
    *,
    options: Sequence[str],
    is_finished: bool,
) -> None:
    """Prints what a training came to, and the commands that come next.

    Args:
        recipe: What was trained.
        workspace: Where everything lies.
        state: Where training ended, or was stopped.
        best: The checkpoint with the best development score, which `model/` holds; None where none
            has been validated.
        options: What makes a command come to the same recipe and workspace.
        is_finished: Whether training came to its end.
    """
    facts = {
        "updates": f"{state.step:,}, {_describe_epochs(state)}"
        f"{state.target_tokens:,} target tokens",
        "time": format_duration(state.elapsed_seconds),
    }
    if state.num_skipped:
        facts["left out"] = f"{state.num_skipped:,} updates whose loss or gradient was no number"
    if best is not None and best.score is not None:
        facts["best score"] = f"{_describe_score(recipe, best.score)}, at step {best.state.step:,}"
        facts["model"] = f"{workspace.model}, the checkpoint of step {best.state.step:,}"
    if workspace.curves.is_file():
        facts["curves"] = str(workspace.curves)
    commands = _list_commands(options, best, is_finished=is_finished)
    say(_describe_outcome(recipe, state, is_finished=is_finished))
    for name, fact in facts.items():
        say(f"  {name:<12}{fact}")
    if commands:
        say("next:")
    for command in commands:
        say(f"  {command}")


def _describe_outcome(recipe: Recipe, state: TrainingState, *, is_finished: bool) -> str:
    if not is_finished:
        return (
            f"stopped at step {state.step:,} of {recipe.training.max_steps:,}; a checkpoint is "
            "saved, and the same command goes on from it"
        )
    if state.step < recipe.training.max_steps:
        return f"finished at step {state.step:,}: the development score has stopped rising"
    return f"finished at step {state.step:,}"


def _describe_epochs(state: TrainingState) -> str:
    if not state.epoch:
        return ""
    return f"{plural(state.epoch, 'epoch')}, "


def _describe_score(recipe: Recipe, score: float) -> str:
    """Returns a checkpoint's score in the metric's own sign, with all that it depends on."""
    metric = recipe.training.validation.metric
    if metric == "loss":
        return (
            f"loss {-score:.4f} per target token, label smoothing "
            f"{recipe.training.label_smoothing:g}"
        )
    settings = recipe.evaluation.model_copy(update={"metrics": (metric,)})
    # The signature says nothing of the text that was scored.
    language = recipe.data.target_language
    [named] = score_corpus(["a"], [["a"]], settings, target_language=language)
    return f"{named.name} {score:.2f} ({named.signature})"


def _list_commands(
    options: Sequence[str], best: Checkpoint | None, *, is_finished: bool
) -> list[str]:
    # What goes on with a stopped training, whoever started its processes says.
    commands = [shlex.join(["mtkit", "average", *options])] if is_finished else []
    if best is not None:
        commands.append('echo "..." | ' + shlex.join(["mtkit", "translate", *options]))
    return commands
