"""Entry points of `mtkit average`: averages checkpoints into `model/`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mtkit.console import open_console, say, warn
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.model.config import read_settings
from mtkit.model.digest import digest_model
from mtkit.model.weight_files import check_weights
from mtkit.network.device import find_device
from mtkit.recipe import Recipe
from mtkit.recipe.training import Averaging
from mtkit.training.averaging.evaluate_weights import (
    compare_mean,
    describe_development,
    digest_basis,
    mean_weights,
    measure_candidates,
)
from mtkit.training.averaging.model_record import (
    Candidate,
    CheckpointSelection,
    Choice,
    MeanComparison,
    ModelRecord,
    TrainingRecord,
    choose_checkpoints,
    choose_winner,
    list_candidates,
    show_candidates,
)
from mtkit.training.checkpoint import Checkpoint, check_same_run, describe_recipe, list_steps
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.metrics import LABELS
from mtkit.training.release import has_wanted_form, save_model
from mtkit.training.training_run import TrainingRun
from mtkit.training.whole_weights import list_checkpoint_shapes
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

    The mean is also measured on the development set and compared with the best single checkpoint.
    `training.averaging.if_worse` says what happens if the mean scores worse.

    Args:
        recipe: The run's recipe.
        workspace: Where the checkpoints are and the model goes.
        choose: The last, the best, or evenly spaced ones.
        num_checkpoints: How many of them.
        device: What the mean is measured on: `cpu`, `cuda` or `auto` (a GPU if there is one).
        options: Options that select the same recipe and workspace, for printed commands.
    """
    found = find_device(device)
    run = _Run.open(recipe, workspace)
    chosen = choose_checkpoints(run.saved, choose, num_checkpoints)
    if not chosen:
        raise MtkitError(
            f"{workspace.checkpoints}: no checkpoint has a development score yet; training was "
            "stopped before the first validation",
            "resume with `mtkit train`, or lower training.checkpoint_every",
        )
    if len(chosen) < num_checkpoints:
        warn(
            f"{num_checkpoints} checkpoints requested, {len(chosen)} regular ones found (those "
            "saved at a stop don't count): averaging the regular ones"
        )
    if choose == "best" and num_checkpoints > recipe.training.keep_best:
        warn(
            f"training.keep_best keeps only the best {recipe.training.keep_best}; the others are "
            "the best of the most recent checkpoints"
        )
    mean = Candidate(f"{choose} {len(chosen)}", tuple(chosen))
    weights = run.read_mean(chosen)
    comparison = None
    if _needs_comparison(recipe.training.averaging, chosen):
        before = ModelRecord.read(workspace)
        comparison = _read_comparison(run.tables, before, run.saved, chosen) or compare_mean(
            run, run.saved, mean, weights=weights, device=found
        )
    released = _choose_released(recipe.training.averaging, run.saved, chosen, comparison)
    if released != chosen:
        weights = run.read_mean(released)
    record = run.save(released, weights, comparison=comparison)
    say(f"averaged {_count(chosen)}")
    _report(record, options)


def select_checkpoint(recipe: Recipe, workspace: Workspace, *, device: str = "auto") -> None:
    """Fills `model/` with the best checkpoint or mean by the development set.

    Candidates are the last checkpoint, even if it was saved at a stop, the best one, means of
    several numbers of the last and of the best, and the mean of
    `training.averaging.num_checkpoints` evenly spaced ones. All are measured as in training;
    `training.validation.metric` decides.
    """
    found = find_device(device)
    run = _Run.open(recipe, workspace)
    num_checkpoints = recipe.training.averaging.num_checkpoints
    metric = recipe.training.validation.score_name
    num_regular = len(choose_checkpoints(run.saved, "last", num_checkpoints))
    if num_regular < num_checkpoints:
        outcome = "comparing averages of those" if num_regular > 1 else "no averages to compare"
        warn(f"{num_checkpoints} checkpoints requested, {num_regular} found: {outcome}")
    candidates = list_candidates(run.saved, num_checkpoints)
    say("comparing on the development set: " + describe_development(run))
    measured = measure_candidates(run, candidates, found)
    winner = choose_winner(measured)
    show_candidates(measured, winner, open_console())
    selection = CheckpointSelection(
        metric=metric,
        checkpoints=list_steps(run.saved),
        candidates=[one.record() for one in measured],
    )
    chosen = winner.candidate.checkpoints
    # The winner's mean is computed again: the means of all candidates might not fit in memory.
    run.save(chosen, run.read_mean(chosen), selection=selection)
    say(
        f"the winner by development {LABELS.get(metric, metric)} is {winner.candidate.name}; "
        f"model/ is made from {_count(chosen)}"
    )


def is_averaged(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that `update_model` would leave `model/` unchanged."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    record, averaging = ModelRecord.read(workspace), recipe.training.averaging
    if record.made_by != "average" or not has_wanted_form(workspace, recipe.training.lora):
        return False
    released = _list_selected(record, saved)
    if not released:
        chosen = choose_checkpoints(saved, averaging.choose, averaging.num_checkpoints)
        comparison = None
        if _needs_comparison(averaging, chosen):
            tables = describe_recipe(recipe)
            comparison = _read_comparison(tables, record, saved, chosen)
            if comparison is None:
                return False
        released = _choose_released(averaging, saved, chosen, comparison)
    return (
        record.steps == list_steps(released)
        and record.digest == digest_model(workspace.model)
        and read_settings(workspace.model) == recipe.inference.without_paths
    )


def update_model(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", options: Sequence[str] = ()
) -> None:
    """Fills `model/` with the recipe's mean, or with what `select_checkpoint` chose before.

    The earlier choice holds as long as the run's checkpoints are the same.
    """
    run = _Run.open(recipe, workspace)
    before, averaging = ModelRecord.read(workspace), recipe.training.averaging
    if selected := _list_selected(before, run.saved):
        run.save(selected, run.read_mean(selected), selection=before.selection)
        say(f"keeping the earlier selection: {_count(selected)}")
        return
    average(
        recipe,
        workspace,
        choose=averaging.choose,
        num_checkpoints=averaging.num_checkpoints,
        device=device,
        options=options,
    )


def warn_if_worse(
    averaging: Averaging, workspace: Workspace, *, options: Sequence[str] = ()
) -> None:
    """Repeats the warning if `model/` is a mean that scored worse than a single checkpoint."""
    record = ModelRecord.read(workspace)
    if record.is_worse_mean and averaging.if_worse != "ignore":
        _report(record, options)


def _needs_comparison(averaging: Averaging, chosen: Sequence[Checkpoint]) -> bool:
    return averaging.if_worse != "ignore" and len(chosen) > 1


def _read_comparison(
    tables: Mapping[str, Any],
    record: ModelRecord,
    saved: Sequence[Checkpoint],
    chosen: Sequence[Checkpoint],
) -> MeanComparison | None:
    """Returns the comparison recorded for the current model, if it holds for this mean."""
    found = record.comparison
    is_held = found is not None and found.basis == digest_basis(tables, saved, chosen)
    return found if is_held else None


def _choose_released(
    averaging: Averaging,
    saved: Sequence[Checkpoint],
    chosen: list[Checkpoint],
    comparison: MeanComparison | None,
) -> list[Checkpoint]:
    """Returns the checkpoints of the mean, or the single one that replaces it."""
    if comparison is None or averaging.if_worse != "replace" or not comparison.is_mean_worse:
        return chosen
    return [one for one in saved if [one.state.step] == comparison.single.steps]


def _list_selected(record: ModelRecord, saved: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Returns the checkpoints that `select_checkpoint` chose; none if the run has others now."""
    if record.selection is None or record.selection.checkpoints != list_steps(saved):
        return []
    return [checkpoint for checkpoint in saved if checkpoint.state.step in record.steps]


def _report(record: ModelRecord, options: Sequence[str]) -> None:
    """Prints how a mean compares with the best single checkpoint; warns if a worse mean is kept."""
    comparison = record.comparison
    if comparison is None:
        return
    worth = "worse than" if comparison.is_mean_worse else "no worse than"
    found = f"the average scores {worth} the best single checkpoint: {comparison.describe()}"
    if record.is_worse_mean:
        command = shlex.join(["mtkit", "average", *options, "--select"])
        warn(f"{found}; to compare averages of other sizes and keep the best: {command}")
    elif comparison.is_mean_worse:
        say(f"{found}; model/ is that checkpoint (training.averaging.if_worse)")
    else:
        say(found)


@dataclass(frozen=True)
class _Run(TrainingRun):
    """A run and its checkpoints, oldest first."""

    saved: list[Checkpoint]

    @classmethod
    def open(cls, recipe: Recipe, workspace: Workspace) -> "_Run":
        saved = CheckpointFolder(workspace.checkpoints).list(skips_damaged=False)
        if not saved:
            raise MtkitError(f"{workspace.checkpoints}: no checkpoints", "run `mtkit train` first")
        run = cls(recipe, workspace, open_prepared(recipe, workspace), saved)
        check_same_run(run.tables, run.data.digest, saved)
        return run

    def read_mean(self, chosen: Sequence[Checkpoint]) -> dict[str, Tensor]:
        """Returns the mean of checkpoints, after a check of their files."""
        shapes = list_checkpoint_shapes(self.model_config, self.recipe.training.lora)
        for checkpoint in chosen:
            checkpoint.check(shapes.values())
            check_weights(checkpoint.weights_file, shapes)
        return mean_weights([checkpoint.weights_file for checkpoint in chosen])

    def save(
        self,
        chosen: Sequence[Checkpoint],
        weights: Mapping[str, Tensor],
        *,
        comparison: MeanComparison | None = None,
        selection: CheckpointSelection | None = None,
    ) -> ModelRecord:
        record = ModelRecord(
            made_by="average",
            steps=list_steps(chosen),
            comparison=comparison,
            selection=selection,
            training=TrainingRecord.of(self.saved[-1]),
        )
        save_model(self, chosen, weights, record=record)
        return record


def _count(checkpoints: Sequence[Checkpoint]) -> str:
    """Returns the number of checkpoints and their steps, in words."""
    count = len(checkpoints)
    numbers = ", ".join(f"{step:,}" for step in list_steps(checkpoints))
    return f"{plural(count, 'checkpoint')} ({'step' if count == 1 else 'steps'} {numbers})"
