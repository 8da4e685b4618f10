"""Trains from prepared data and releases the best checkpoint to `model/`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import torch

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.files import digest, write_atomically
from mtkit.folders import exclusive_lock
from mtkit.model.digest import digest_model
from mtkit.network import Network
from mtkit.network.device import limit_kernel_cache, limit_threads
from mtkit.recipe import Recipe, dump_recipe
from mtkit.recipe.precision import TrainingPrecision
from mtkit.recipe.tables import relative_to_root
from mtkit.recipe.training import Training
from mtkit.stored_folder import put_or_warn
from mtkit.training.averaging.model_record import ModelRecord
from mtkit.training.build_learner import build_learner, build_objective, open_metrics
from mtkit.training.checkpoint import (
    Checkpoint,
    TrainingState,
    check_same_run,
    check_unchanged,
    is_finished,
    list_changed_settings,
    list_score_settings,
)
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.distributed import ProcessGroup, join_processes, leave_processes
from mtkit.training.dry_run import plan_batches
from mtkit.training.launch import count_machines
from mtkit.training.learner import Learner
from mtkit.training.loop import Trainer, restore_everywhere
from mtkit.training.progress import (
    ProgressView,
    count_validations,
    describe_resumed,
    describe_stages,
    show_start,
)
from mtkit.training.release import has_wanted_form, is_released, release
from mtkit.training.training_run import TrainingRun
from mtkit.workspace import Workspace


def train(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", options: Sequence[str] = ()
) -> bool:
    """Trains from the last checkpoint, if any, to the end, or until Ctrl-C or SIGTERM.

    In torchrun's workers it trains together with the others. Afterwards `model/` holds the
    checkpoint with the best development score.

    Args:
        recipe: What to train.
        workspace: Where the data are and the checkpoints go.
        device: `auto` is a GPU if there is one.
        options: Options that select the same recipe and workspace, for the printed commands.

    Returns:
        Whether training has finished; False after a requested stop.
    """
    run = TrainingRun.open(recipe, workspace)
    processes = join_processes(device, stuck_after_seconds=recipe.training.stuck_after_seconds)
    limit_threads()
    limit_kernel_cache()
    has_ended = False
    try:
        alone = exclusive_lock(workspace.root, "`mtkit train`")
        with alone if processes.is_first else nullcontext(), _allowing_tf32(recipe.training):
            is_at_end = _train(run, processes, options)
        has_ended = True
        return is_at_end
    finally:
        leave_processes(processes, has_ended=has_ended)


@contextmanager
def _allowing_tf32(training: Training) -> Iterator[None]:
    """Rounds fp32 products on a GPU while the block runs, if the recipe says so."""
    products = torch.backends.cuda.matmul
    before, products.allow_tf32 = products.allow_tf32, training.tf32
    try:
        yield
    finally:
        products.allow_tf32 = before


def _train(run: TrainingRun, processes: ProcessGroup, options: Sequence[str]) -> bool:
    """Trains among joined processes; returns whether it has finished."""
    training = run.recipe.training
    _check_same_everywhere(run, processes)
    checkpoints = CheckpointFolder(run.workspace.checkpoints)
    saved = processes.broadcast_object(checkpoints.list() if processes.is_first else [])
    is_done = _is_done(run, saved)
    processes.progress.beat("building the model")
    # LoRA's base isn't in checkpoints.
    loads_start = training.start_from is not None and (not saved or training.lora is not None)
    learner = build_learner(run, processes, loads_start=loads_start and processes.is_first)
    processes.broadcast(learner.tensors())
    restored = None if is_done else restore_everywhere(checkpoints, learner, processes)
    # The newest may have been damaged and renamed.
    saved = [c for c in saved if restored is None or c.state.step <= restored.state.step]
    state = saved[-1].state if saved else TrainingState()
    if processes.is_first:
        show_start(run.recipe.name, training, learner, processes.device)
    if is_done:
        if processes.is_first:
            longer = "to train longer: --set training.max_steps=..."
            if state.step < training.max_steps:
                longer = (
                    "the development score had stopped improving; to train longer, raise or remove "
                    "training.early_stopping"
                )
            say(
                f"already at step {state.step:,} of {training.max_steps:,}: nothing to do; {longer}"
            )
    else:
        if processes.is_first:
            if changes := list_changed_settings(run.tables, saved):
                since = f"; they apply from step {state.step + 1:,} on"
                warn("resuming with changed settings: " + "; ".join(changes) + since)
            checkpoints.sweep()
            _record_run(run, learner.working.precision, processes)
        state = _make_updates(run, processes, learner, newest=restored)
    # An earlier run may have been killed between its last checkpoint and this line.
    if processes.is_first and not (is_done and is_released(run, checkpoints)):
        if is_done:
            # It may have been killed between the last score and the removal of older checkpoints.
            checkpoints.sweep()
            checkpoints.prune(training)
        release(run, state, options=options)
        put_or_warn(run.workspace.root)
    return is_finished(training, state)


def _make_updates(
    run: TrainingRun,
    processes: ProcessGroup,
    learner: Learner[Network],
    *,
    newest: Checkpoint | None,
) -> TrainingState:
    """Makes the updates that are left since the newest checkpoint; returns the last state."""
    recipe, training = run.recipe, run.recipe.training
    objective = build_objective(run, learner, processes)
    state = TrainingState() if newest is None else newest.state
    if newest is not None and list_score_settings(newest.recipe) != list_score_settings(run.tables):
        state = replace(state, best_score=None, num_without_best=0)
        if processes.is_first:
            warn(
                "earlier development scores were measured with other settings: the best checkpoint "
                "is one of those that follow"
            )
    wanted = training.micro_batch_tokens
    stages = describe_stages(training, recipe.data.train)
    is_fitted = newest is not None and newest.recipe["training"]["micro_batch_tokens"] == wanted
    view = ProgressView(
        training.max_steps,
        is_shown=processes.is_first,
        warm_up_steps=training.schedule.warmup_steps,
        stages=stages,
        count_left=partial(count_validations, training),
    )
    trainer = Trainer(
        recipe=recipe,
        objective=objective,
        learner=learner,
        processes=processes,
        checkpoints=CheckpointFolder(run.workspace.checkpoints),
        view=view,
        data_digest=run.data.digest,
    )
    if not (is_fitted and state.micro_batch_tokens):
        state = replace(state, micro_batch_tokens=trainer.updater.fit_micro_batch())
    if processes.is_first:
        batches = plan_batches(
            objective.batches,
            num_processes=processes.count,
            micro_batch_tokens=state.micro_batch_tokens,
        )
        say(batches.describe(training.batch_tokens, processes.device.type))
        if state.step:
            epoch = objective.batches.plan_epoch(state.epoch)
            say(describe_resumed(training.validation.score_name, state, len(epoch)))
        if stages:
            say(stages[max(first for first in stages if first <= state.step)])
    has_to_be_scored = (
        newest is not None
        and newest.score is None
        and (newest.is_regular or is_finished(training, state))
    )
    with view, open_metrics(run, state, processes) as metrics:
        trainer = replace(trainer, metrics=metrics)
        return trainer.run(state, unscored=newest if has_to_be_scored else None)


def is_trained(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that the workspace holds a finished training of this recipe."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    return bool(saved) and _is_done(TrainingRun.open(recipe, workspace), saved)


def is_trained_without_checkpoints(recipe: Recipe, workspace: Workspace) -> bool:
    """Checks that `model/` is from a finished training of this recipe without its checkpoints.

    A model whose training isn't recorded is an error.
    """
    has_checkpoints = any(workspace.checkpoints.glob("*step-*"))
    if has_checkpoints or not has_wanted_form(workspace, recipe.training.lora):
        return False
    record = ModelRecord.read(workspace)
    if record.training is None:
        raise MtkitError(
            f"{workspace.model} has no checkpoints next to it, and it was made by an unreleased "
            "mtkit, which didn't record its training",
            "to train again, remove the model first; to use it, run `mtkit translate`",
        )
    if record.digest != digest_model(workspace.model):
        return False
    last = record.training.as_checkpoint(workspace)
    try:
        return _is_done(TrainingRun.open(recipe, workspace), [last])
    except MtkitError as error:
        say(f"training starts from step 0: {error.message}")
        return False


def _is_done(run: TrainingRun, saved: list[Checkpoint]) -> bool:
    """Checks that the checkpoints, if any, are of this run and finished."""
    # A checkpoint from a stop has no score. If `max_steps` was lowered to it, it still needs one.
    check_same_run(run.tables, run.data.digest, saved)
    if not saved or saved[-1].score is None:
        return False
    if not is_finished(run.recipe.training, saved[-1].state):
        return False
    check_unchanged(run.tables, saved)
    return True


def _check_same_everywhere(run: TrainingRun, processes: ProcessGroup) -> None:
    """Checks that all machines have the same recipe and data."""
    named = ("seed", "model", "training", "inference")
    # A learned metric is named by its content; the path of a start's model may differ, too.
    tables = run.tables
    settings = relative_to_root({key: tables[key] for key in named}, str(run.recipe.data.data_root))
    if len(set(processes.gather([run.data.digest]))) > 1:
        raise MtkitError(
            "the machines have different training data",
            "prepare once, in a workspace that all machines share, or copy its data/ to each",
        )
    if len(set(processes.gather([digest(settings)]))) > 1:
        raise MtkitError(
            "the machines have different recipes",
            "use the same recipe and the same --set options on each machine",
        )


def _record_run(run: TrainingRun, precision: TrainingPrecision, processes: ProcessGroup) -> None:
    write_atomically(run.workspace.recipe_file, dump_recipe(run.recipe))
    run.workspace.record(
        "train",
        {
            "seed": run.recipe.seed,
            "processes": processes.count,
            "machines": count_machines(),
            "device": processes.device.type,
            "precision": precision,
            "threads": torch.get_num_threads(),
        },
    )
