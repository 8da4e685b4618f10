"""The front door of `mtkit train`: data to checkpoints, and the best of them to `model/`."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch

from mtkit.console import say, warn
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import at_work_alone
from mtkit.model.digest import digest_model
from mtkit.network import Network
from mtkit.network.device import limit_kernel_cache, limit_threads
from mtkit.recipe import Recipe, dump_recipe
from mtkit.recipe.precision import Precision
from mtkit.recipe.tables import relative_to_root
from mtkit.training.averaging.record import ModelRecord
from mtkit.training.build import build_learner, build_objective, open_metrics
from mtkit.training.checkpoint import Checkpoint, TrainingState
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.distributed import Processes, join_processes, leave_processes
from mtkit.training.fit_memory import fit_micro_batch
from mtkit.training.launch import count_machines
from mtkit.training.learner import Learner
from mtkit.training.loop import Trainer, is_finished, restore_everywhere
from mtkit.training.plan import plan_batches
from mtkit.training.progress import ProgressView
from mtkit.training.release import has_wanted_form, is_released, release
from mtkit.training.same_run import check_same_run, check_unchanged, list_changes
from mtkit.training.summary import describe_resumed, show_beginning
from mtkit.workspace import Workspace


def train(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", options: Sequence[str] = ()
) -> bool:
    """Trains from the last checkpoint, if any, to the end, or until Ctrl-C or SIGTERM.

    In torchrun's workers it trains together with the others. `model/` holds the checkpoint with the
    best development score afterwards.

    Args:
        recipe: What to train.
        workspace: Where the data are and the checkpoints go.
        device: `auto` takes a GPU where there is one.
        options: Options that select the same recipe and workspace, for the commands printed at the
            end.

    Returns:
        Whether training came to its end; False where it was asked to stop.

    Raises:
        MtkitError: No data yet, another recipe's data or checkpoints, no usable checkpoint, no such
            device, another command at work in the workspace, or a training that diverged.
    """
    data = open_prepared(recipe, workspace)
    processes = join_processes(device, stuck_after_seconds=recipe.training.stuck_after_seconds)
    limit_threads()
    limit_kernel_cache()
    has_ended = False
    try:
        alone = at_work_alone(workspace.root, "`mtkit train`")
        with alone if processes.is_first else nullcontext():
            is_at_end = _train(recipe, workspace, data, processes, options)
        has_ended = True
        return is_at_end
    finally:
        leave_processes(processes, has_ended=has_ended)


def _train(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    processes: Processes,
    options: Sequence[str],
) -> bool:
    """Trains among processes that have joined; returns whether training came to its end."""
    _check_same_everywhere(recipe, data, processes)
    checkpoints = CheckpointFolder(workspace.checkpoints)
    saved = processes.broadcast_object(checkpoints.list() if processes.is_first else [])
    is_done = _is_done(recipe, data.digest, saved)
    processes.progress.beat("building the model")
    # LoRA's base isn't in checkpoints.
    takes_start = recipe.training.start_from is not None and (
        not saved or recipe.training.lora is not None
    )
    learner = build_learner(recipe, data, processes, takes_start=takes_start and processes.is_first)
    processes.broadcast(learner.tensors())
    restored = None if is_done else restore_everywhere(checkpoints, learner, processes)
    # The newest may have been damaged, and was then renamed.
    saved = [c for c in saved if restored is None or c.state.step <= restored.state.step]
    state = saved[-1].state if saved else TrainingState()
    if processes.is_first:
        show_beginning(recipe, learner, processes)
    if is_done:
        if processes.is_first:
            say(
                f"already at step {state.step:,} of {recipe.training.max_steps:,}: nothing to do; "
                "to train longer: --set training.max_steps=..."
            )
    else:
        if processes.is_first:
            if changes := list_changes(recipe, saved):
                since = f"; they hold from step {state.step + 1:,} on"
                warn("resuming with changed settings: " + "; ".join(changes) + since)
            checkpoints.sweep()
            _write_down(recipe, workspace, learner.working.precision, processes)
        state = _run(recipe, workspace, data, processes=processes, learner=learner, newest=restored)
    # Also where an earlier run was killed between its last checkpoint and this line.
    if processes.is_first and not (is_done and is_released(recipe, workspace, checkpoints)):
        if is_done:
            # It may have been killed between the last score and the removal of older checkpoints.
            checkpoints.sweep()
            checkpoints.prune(recipe.training)
        release(recipe, workspace, data, state, options=options)
    return is_finished(recipe, state)


def _run(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    *,
    processes: Processes,
    learner: Learner[Network],
    newest: Checkpoint | None,
) -> TrainingState:
    """Makes the updates that are left since the newest checkpoint; returns where training got."""
    objective = build_objective(recipe, data, learner, processes)
    state = TrainingState() if newest is None else newest.state
    wanted = recipe.training.micro_batch_tokens
    is_fitted = newest is not None and newest.recipe["training"]["micro_batch_tokens"] == wanted
    if not (is_fitted and state.micro_batch_tokens):
        limit = fit_micro_batch(recipe, objective, learner, processes)
        state = replace(state, micro_batch_tokens=limit)
    if processes.is_first:
        batches = plan_batches(
            objective.batches,
            num_processes=processes.count,
            micro_batch_tokens=state.micro_batch_tokens,
        )
        say(batches.describe(recipe.training.batch_tokens, processes.device.type))
        if state.step:
            say(describe_resumed(recipe, state, batches.num_updates))
    has_to_be_scored = (
        newest is not None
        and newest.score is None
        and (newest.is_regular or is_finished(recipe, state))
    )
    view = ProgressView(
        recipe.training.max_steps,
        is_shown=processes.is_first,
        warm_up_steps=recipe.training.schedule.warmup_steps,
    )
    with view, open_metrics(recipe, workspace, state, processes) as metrics:
        return Trainer(
            recipe=recipe,
            objective=objective,
            learner=learner,
            processes=processes,
            checkpoints=CheckpointFolder(workspace.checkpoints),
            metrics=metrics,
            view=view,
            data_digest=data.digest,
        ).run(state, unscored=newest if has_to_be_scored else None)


def is_trained(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that the workspace holds a finished training of this recipe."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    return bool(saved) and _is_done(recipe, open_prepared(recipe, workspace).digest, saved)


def is_trained_without_checkpoints(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that `model/` is of a finished training of this recipe whose checkpoints are gone.

    Raises:
        MtkitError: The checkpoints are gone, and the model's training isn't known.
    """
    if any(workspace.checkpoints.glob("*step-*")) or not has_wanted_form(recipe, workspace):
        return False
    record = ModelRecord.read(workspace)
    if record.training is None:
        raise MtkitError(
            f"{workspace.model} has no checkpoints beside it, and an earlier version of mtkit made "
            "it, which didn't record its training",
            "to train again, remove the model first; to use it, run `mtkit translate`",
        )
    if record.digest != digest_model(workspace.model):
        return False
    last = record.training.as_checkpoint(workspace)
    try:
        return _is_done(recipe, open_prepared(recipe, workspace).digest, [last])
    except MtkitError as error:
        say(f"training starts from step 0: {error.message}")
        return False


def _is_done(recipe: Recipe, data_digest: str, saved: list[Checkpoint]) -> bool:
    """Checks that the checkpoints, of this run if of any, have come to its end.

    A stop's checkpoint has no score; where `max_steps` was lowered to it, it still needs one.
    """
    check_same_run(recipe, data_digest, saved)
    if not saved or saved[-1].score is None or not is_finished(recipe, saved[-1].state):
        return False
    check_unchanged(recipe, saved)
    return True


def _check_same_everywhere(recipe: Recipe, data: PreparedData, processes: Processes) -> None:
    """Checks that all machines have the same recipe and data."""
    settings = recipe.model_dump(mode="json", include={"seed", "model", "training", "inference"})
    # Where a start's model lies may differ.
    settings = relative_to_root(settings, str(recipe.data.data_root))
    if len(set(processes.gather([data.digest]))) > 1:
        raise MtkitError(
            "the machines have different training data",
            "prepare once, in a workspace that all machines share, or copy its data/ to each",
        )
    if len(set(processes.gather([digest(settings)]))) > 1:
        raise MtkitError(
            "the machines have different recipes",
            "use the same recipe and the same --set options on each machine",
        )


def _write_down(
    recipe: Recipe, workspace: Workspace, precision: Precision, processes: Processes
) -> None:
    write_atomically(workspace.recipe_file, dump_recipe(recipe))
    workspace.record(
        "train",
        {
            "seed": recipe.seed,
            "processes": processes.count,
            "machines": count_machines(),
            "device": processes.device.type,
            "precision": precision,
            "threads": torch.get_num_threads(),
        },
    )
