"""The front door of `mtkit average`: one model, the mean of several checkpoints, to `model/`."""

import shlex
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from mtkit.console import open_console, say, warn
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.errors import MtkitError
from mtkit.model.config import read_settings
from mtkit.model.digest import digest_model
from mtkit.model.parameters import list_shapes
from mtkit.model.weights import check_weights
from mtkit.network.device import find_device
from mtkit.recipe import Recipe
from mtkit.training.averaging.candidates import (
    Candidate,
    Choice,
    as_tables,
    choose_checkpoints,
    choose_winner,
    list_candidates,
    show_candidates,
)
from mtkit.training.averaging.comparison import MeanComparison, compare, is_to_be_compared
from mtkit.training.averaging.mean import mean_weights
from mtkit.training.averaging.measuring import measure_candidates
from mtkit.training.averaging.record import (
    COMPARISON,
    SELECTION,
    as_comparison,
    read_comparison,
    read_selected,
    record_comparison,
    record_selection,
)
from mtkit.training.checkpoint import Checkpoint, list_steps
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.metrics import LABELS
from mtkit.training.release import save_model
from mtkit.training.same_run import check_same_run
from mtkit.units import plural
from mtkit.workspace import Workspace


def average(
    recipe: Recipe,
    workspace: Workspace,
    *,
    choose: Choice,
    num_checkpoints: int,
    device: str = "auto",
    options: Sequence[str] = (),
) -> None:
    """Fills `model/` with the mean of some of a run's checkpoints.

    Measures the mean on the development set, too, and compares it with the best single checkpoint;
    `training.averaging.if_worse` says what happens where it does worse.

    Args:
        recipe: The run's recipe.
        workspace: Where the checkpoints are and the model goes.
        choose: The last, the best, or those spread evenly over all that were kept.
        num_checkpoints: How many of them.
        device: What the mean is measured on: `cpu`, `cuda`, or `auto`, which takes a GPU where
            there is one.
        options: What makes a command come to the same recipe and workspace, for what is said.

    Raises:
        MtkitError: No checkpoints, those of another run, a damaged one, or no such device.
    """
    found = find_device(device)
    saved, data = _open_run(recipe, workspace)
    chosen = choose_checkpoints(saved, choose, num_checkpoints)
    if not chosen:
        raise MtkitError(
            f"{workspace.checkpoints}: no checkpoint with a development score yet; training was "
            "stopped before the first",
            "go on with `mtkit train`, or set training.checkpoint_every lower",
        )
    if len(chosen) < num_checkpoints:
        warn(f"{num_checkpoints} checkpoints wanted, {len(chosen)} found: averaging those")
    if choose == "best" and num_checkpoints > recipe.training.keep_best:
        warn(
            f"only the best {recipe.training.keep_best} of all are sure to have been kept "
            "(training.keep_best); the others are the best of the last"
        )
    mean = Candidate(f"{choose} {len(chosen)}", tuple(chosen))
    weights = _read_mean(recipe, data, chosen)
    comparison = read_comparison(recipe, workspace, saved, chosen) or compare(
        recipe, data, saved, mean, weights=weights, device=found
    )
    released = _choose_released(recipe, saved, chosen, comparison)
    if released != chosen:
        weights = _read_mean(recipe, data, released)
    record, facts = record_comparison(comparison, is_mean_kept=released == chosen)
    save_model(
        recipe, workspace, data, released, weights, made_by="average", record=record, facts=facts
    )
    say(f"averaged {_count(chosen)}")
    if comparison is not None:
        _report(comparison, is_mean_kept=released == chosen, options=options)


def select(recipe: Recipe, workspace: Workspace, *, device: str = "auto") -> None:
    """Fills `model/` with what is worth most on the development set, checkpoint or mean.

    Compares the last checkpoint, even if it was saved at a stop, the best one, means of several
    numbers of the last and of the best, and that of the evenly spaced
    `training.averaging.num_checkpoints`, as training measures them; `training.validation.metric`
    decides.

    Args:
        recipe: The run's recipe.
        workspace: Where the checkpoints are and the model goes.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.

    Raises:
        MtkitError: No checkpoints, those of another run, a damaged one, or no such device.
    """
    found = find_device(device)
    saved, data = _open_run(recipe, workspace)
    num_checkpoints = recipe.training.averaging.num_checkpoints
    metric = recipe.training.validation.metric
    num_regular = len(choose_checkpoints(saved, "last", num_checkpoints))
    if num_regular < num_checkpoints:
        outcome = "comparing means of those" if num_regular > 1 else "there is no mean to compare"
        warn(f"{num_checkpoints} checkpoints wanted, {num_regular} found: {outcome}")
    candidates = list_candidates(saved, num_checkpoints)
    say(
        f"comparing on the development set: {len(data.dev):,} sentences, beam "
        f"{recipe.training.validation.beam_size}"
    )
    measured = measure_candidates(recipe, data, candidates, found)
    winner = choose_winner(measured)
    show_candidates(measured, winner, open_console())
    selection = {
        "metric": metric,
        "checkpoints": list_steps(saved),
        "candidates": as_tables(measured),
    }
    # The winner's mean is taken once more: all candidates' might not fit in memory.
    _save_selected(recipe, workspace, data, list(winner.candidate.checkpoints), selection)
    say(
        f"the winner by development {LABELS.get(metric, metric)} is {winner.candidate.name}; the "
        f"model is made of {_count(winner.candidate.checkpoints)}"
    )


def is_averaged(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that `update_model` would leave `model/` as it is."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    record = workspace.read_manifest().get("model", {})
    if record.get("made_by") != "average" or not workspace.model.is_dir():
        return False
    averaging = recipe.training.averaging
    released = read_selected(workspace, saved)
    if not released:
        chosen = choose_checkpoints(saved, averaging.choose, averaging.num_checkpoints)
        comparison = read_comparison(recipe, workspace, saved, chosen)
        if comparison is None and is_to_be_compared(recipe, chosen):
            return False
        released = _choose_released(recipe, saved, chosen, comparison)
    return (
        record.get("steps") == list_steps(released)
        # Earlier versions recorded none.
        and record.get("digest") in (None, digest_model(workspace.model))
        and read_settings(workspace.model) == recipe.inference
    )


def update_model(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", options: Sequence[str] = ()
) -> None:
    """Fills `model/` with the mean that the recipe asks for, or what `select` chose before.

    What it chose stays chosen until the run's checkpoints are others. For the arguments see
    `average`.

    Raises:
        MtkitError: No checkpoints, those of another run, or a damaged one.
    """
    saved, data = _open_run(recipe, workspace)
    if selected := read_selected(workspace, saved):
        selection = workspace.read_manifest()["model"][SELECTION]
        _save_selected(recipe, workspace, data, selected, selection)
        say(f"kept what was selected before: {_count(selected)}")
    else:
        averaging = recipe.training.averaging
        average(
            recipe,
            workspace,
            choose=averaging.choose,
            num_checkpoints=averaging.num_checkpoints,
            device=device,
            options=options,
        )


def warn_if_worse(recipe: Recipe, workspace: Workspace, *, options: Sequence[str] = ()) -> None:
    """Warns again where `model/` is a mean that was found to do worse than a single checkpoint."""
    record = workspace.read_manifest().get("model", {})
    if COMPARISON in record and recipe.training.averaging.if_worse != "ignore":
        comparison = as_comparison(record[COMPARISON])
        if (
            comparison is not None
            and comparison.is_mean_worse
            and record["steps"] == comparison.mean["steps"]
        ):
            _report(comparison, is_mean_kept=True, options=options)


def _choose_released(
    recipe: Recipe,
    saved: Sequence[Checkpoint],
    chosen: list[Checkpoint],
    comparison: MeanComparison | None,
) -> list[Checkpoint]:
    """Returns the checkpoints of the mean, or the single one that takes its place."""
    is_replaced = recipe.training.averaging.if_worse == "replace"
    if comparison is None or not (is_replaced and comparison.is_mean_worse):
        return chosen
    return [checkpoint for checkpoint in saved if checkpoint.state.step == comparison.single_step]


def _report(comparison: MeanComparison, *, is_mean_kept: bool, options: Sequence[str]) -> None:
    """Says what a mean is worth beside a single checkpoint, and warns where it is worse."""
    if not comparison.is_mean_worse:
        say(f"the mean does no worse than a checkpoint alone: {comparison.describe()}")
        return
    found = f"the mean does worse than a checkpoint alone: {comparison.describe()}"
    if is_mean_kept:
        command = shlex.join(["mtkit", "average", *options, "--select"])
        warn(f"{found}; to measure means of other numbers and keep the best: {command}")
    else:
        warn(f"{found}; the model is that checkpoint (training.averaging.if_worse)")


def _open_run(recipe: Recipe, workspace: Workspace) -> tuple[list[Checkpoint], PreparedData]:
    """Returns the run's checkpoints, oldest first, and its data."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    if not saved:
        raise MtkitError(f"{workspace.checkpoints}: no checkpoints", "run `mtkit train` first")
    data = open_prepared(recipe, workspace)
    check_same_run(recipe, data.digest, saved)
    return saved, data


def _read_mean(
    recipe: Recipe, data: PreparedData, chosen: Sequence[Checkpoint]
) -> dict[str, Tensor]:
    """Returns the mean of checkpoints whose files hold what was saved."""
    shapes = list_shapes(recipe.model, *data.tokenizer.vocab_sizes.values())
    for checkpoint in chosen:
        checkpoint.check(shapes.values())
        check_weights(checkpoint.weights_file, shapes)
    return mean_weights([checkpoint.weights_file for checkpoint in chosen])


def _save_selected(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    chosen: Sequence[Checkpoint],
    selection: dict[str, Any],
) -> None:
    """Fills `model/` with what was selected; card and manifest say what it was compared with."""
    record, facts = record_selection(selection)
    weights = _read_mean(recipe, data, chosen)
    save_model(
        recipe, workspace, data, chosen, weights, made_by="average", record=record, facts=facts
    )


def _count(checkpoints: Sequence[Checkpoint]) -> str:
    """Returns how many checkpoints there are, and their steps, in words."""
    count = len(checkpoints)
    numbers = ", ".join(f"{step:,}" for step in list_steps(checkpoints))
    return f"{plural(count, 'checkpoint')} ({'step' if count == 1 else 'steps'} {numbers})"
