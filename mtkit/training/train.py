"""The front door of `mtkit train`: data to checkpoints, and the best of them to `model/`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import cast

import torch

from mtkit.console import say, warn
from mtkit.data.prepared import PreparedData, open_prepared, relative_to_root
from mtkit.errors import MtkitError
from mtkit.files import at_work_alone, digest, write_atomically
from mtkit.model.digest import digest_model
from mtkit.model.folder import save_model_folder
from mtkit.model.parameters import list_shapes
from mtkit.model.weights import read_weights
from mtkit.network import EncoderDecoder
from mtkit.network.device import is_imitated, limit_kernel_cache, limit_threads
from mtkit.recipe import Recipe, dump_recipe
from mtkit.recipe.precision import Precision
from mtkit.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    TrainingState,
    choose_best,
    describe_training,
)
from mtkit.training.distributed import Processes, join_processes, leave_processes
from mtkit.training.frozen import freeze
from mtkit.training.launch import count_machines
from mtkit.training.learner import Learner
from mtkit.training.loop import Trainer, is_finished, restore_everywhere
from mtkit.training.metrics import LABELS, MetricsLog
from mtkit.training.objective import TranslationObjective
from mtkit.training.plan import build_model, describe_parameters, plan_batches
from mtkit.training.precision import resolve_precision
from mtkit.training.progress import ProgressView
from mtkit.training.same_run import check_same_run, check_unchanged, list_changes
from mtkit.training.schedule import note_warmup
from mtkit.training.start_from import start_from
from mtkit.training.summary import show_summary
from mtkit.training.trackers import open_trackers
from mtkit.training.translation_loss import can_pack_batches
from mtkit.training.update import Updater
from mtkit.training.validation import Validator
from mtkit.units import format_duration, plural
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
        options: What makes a command come to the same recipe and workspace, for what is said at the
            end.

    Returns:
        Whether training came to its end; False where it was asked to stop.

    Raises:
        MtkitError: No data yet, another recipe's data or checkpoints, no sound checkpoint, no such
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
    torch.manual_seed(recipe.seed)
    processes.progress.beat("building the model")
    model = build_model(recipe, data).to(processes.device)
    if recipe.training.start_from is not None and not saved and processes.is_first:
        start_from(recipe, model, data.tokenizer)
    freeze(model, recipe.training.freeze)
    precision = resolve_precision(recipe, processes)
    learner = Learner.of(model, recipe, precision=precision)
    processes.broadcast(learner.tensors())
    restored = None if is_done else restore_everywhere(checkpoints, learner, processes)
    # The newest may have been damaged, and is then put aside.
    saved = [c for c in saved if restored is None or c.state.step <= restored.state.step]
    state = saved[-1].state if saved else TrainingState()
    if processes.is_first:
        _warn_of_slow_arithmetic(precision, processes)
        if note := note_warmup(recipe.training.schedule, max_steps=recipe.training.max_steps):
            warn(note)
        say(f"training {recipe.name}: {describe_parameters(model)}; {precision}")
    if is_done:
        if processes.is_first:
            say(
                f"already at step {state.step:,} of {recipe.training.max_steps:,}: nothing to do; "
                "--set training.max_steps=... goes on"
            )
    else:
        if processes.is_first:
            _warn_of_changes(list_changes(recipe, saved))
            checkpoints.sweep()
            _write_down(recipe, workspace, precision, processes)
        state = _run(recipe, workspace, data, processes=processes, learner=learner, newest=restored)
    # Also where an earlier run was killed between its last checkpoint and this line.
    if processes.is_first and not (is_done and _has_its_model(workspace, checkpoints)):
        _finish(recipe, workspace, data, state, options=options)
    return is_finished(recipe, state)


def _run(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    *,
    processes: Processes,
    learner: Learner,
    newest: Checkpoint | None,
) -> TrainingState:
    """Makes the updates that are left; returns where training got.

    Args:
        recipe: What to train.
        workspace: Where checkpoints and metrics go.
        data: The run's data.
        processes: Who takes part.
        learner: What learns, as it was at the newest checkpoint.
        newest: That checkpoint; None at the start.
    """
    state = TrainingState() if newest is None else newest.state
    model = cast(EncoderDecoder, learner.model)
    working = cast(EncoderDecoder, learner.working.model)
    # A process that can't pack would cut updates otherwise than the rest.
    packs = not processes.any(not can_pack_batches(working, recipe, processes.device))
    objective = TranslationObjective(working, data, recipe, processes.device, packs=packs)
    wanted = recipe.training.micro_batch_tokens
    if newest is not None and newest.recipe["training"]["micro_batch_tokens"] != wanted:
        state = replace(state, micro_batch_tokens=0)
    if not state.micro_batch_tokens:
        limit = Updater(recipe, objective, learner, processes).fit_micro_batch()
        state = replace(state, micro_batch_tokens=limit)
    if processes.is_first:
        batches = plan_batches(
            objective,
            data.train,
            num_processes=processes.count,
            micro_batch_tokens=state.micro_batch_tokens,
        )
        say(batches.describe(recipe.training.batch_tokens, processes.device.type))
        if state.step:
            say(_describe_place(recipe, state, batches.num_updates))
    validator = Validator(recipe, data, processes)
    has_to_be_scored = (
        newest is not None
        and newest.score is None
        and (newest.is_regular or is_finished(recipe, state))
    )
    warm_up_steps = recipe.training.schedule.warmup_steps
    view = ProgressView(
        recipe.training.max_steps, is_shown=processes.is_first, warm_up_steps=warm_up_steps
    )
    with view, _metrics_log(recipe, workspace, state, processes) as metrics:
        return Trainer(
            recipe=recipe,
            objective=objective,
            learner=learner,
            processes=processes,
            checkpoints=CheckpointFolder(workspace.checkpoints),
            validate=lambda: validator.validate(model),
            metrics=metrics,
            view=view,
            data_digest=data.digest,
        ).run(state, unscored=newest if has_to_be_scored else None)


@contextmanager
def _metrics_log(
    recipe: Recipe, workspace: Workspace, state: TrainingState, processes: Processes
) -> Iterator[MetricsLog | None]:
    """Yields the run's log in the first process, which alone has one."""
    if not processes.is_first:
        yield None
        return
    metrics = MetricsLog(
        workspace.metrics_file,
        picture=workspace.curves,
        title=recipe.name,
        resumed_at=state.step,
        warm_up_steps=recipe.training.schedule.warmup_steps,
        score=recipe.training.validation.metric,
        trackers=open_trackers(recipe, workspace, resumed_at=state.step),
    )
    try:
        if state.step:
            metrics.append("event", {"step": state.step, "text": "resumed"})
        yield metrics
    finally:
        metrics.close()


def is_trained(recipe: Recipe, workspace: Workspace) -> bool:
    """Returns whether the workspace holds a finished training of this recipe."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    return bool(saved) and _is_done(recipe, open_prepared(recipe, workspace).digest, saved)


def _is_done(recipe: Recipe, data_digest: str, saved: list[Checkpoint]) -> bool:
    """Returns whether the checkpoints, of this run if of any, have come to its end.

    A stop's checkpoint has no score; where `max_steps` was lowered to it, it still needs one.
    """
    check_same_run(recipe, data_digest, saved)
    if not saved or saved[-1].score is None or not is_finished(recipe, saved[-1].state):
        return False
    check_unchanged(recipe, saved)
    return True


def _check_same_everywhere(recipe: Recipe, data: PreparedData, processes: Processes) -> None:
    """Checks that all machines have the same recipe and data.

    Raises:
        MtkitError: They haven't.
    """
    settings = recipe.model_dump(mode="json", include={"seed", "model", "training", "inference"})
    # Where a start's model lies may differ.
    settings = relative_to_root(settings, str(recipe.data.data_root))
    if len(set(processes.gather([data.digest]))) > 1:
        raise MtkitError(
            "the machines that train together have different data",
            "prepare once, in a workspace that all of them see, or copy its data/ to each",
        )
    if len(set(processes.gather([digest(settings)]))) > 1:
        raise MtkitError(
            "the machines that train together have different recipes",
            "give the same recipe, and the same --set, on each of them",
        )


def _describe_place(recipe: Recipe, state: TrainingState, num_updates: int) -> str:
    """Returns what was restored of an earlier session, as a line."""
    metric = recipe.training.validation.metric
    best = ""
    if state.best_score is not None:
        # A loss ranks checkpoints by its negative.
        value = -state.best_score if metric == "loss" else state.best_score
        since = plural(state.num_without_best, "checkpoint")
        best = f", best development {LABELS.get(metric, metric)} {value:.2f}, {since} since"
    skipped = f", {state.num_skipped:,} updates left out" if state.num_skipped else ""
    factor = state.rate_factor
    slower = f", at {factor:g} times the learning rate" if factor != 1.0 else ""
    return (
        f"going on from step {state.step:,}: epoch {state.epoch + 1}, update {state.position:,} of "
        f"{num_updates:,}, {format_duration(state.elapsed_seconds)} of training{best}"
        f"{skipped}{slower}"
    )


def _warn_of_changes(changes: list[str]) -> None:
    if changes:
        warn("from here on with other settings than so far: " + "; ".join(changes))


def _warn_of_slow_arithmetic(precision: Precision, processes: Processes) -> None:
    """Warns of bfloat16 on a processor that only imitates it, many times slower (docs/log.md)."""
    if precision == "bf16" and is_imitated(processes.device):
        warn(
            "this processor has no bfloat16 arithmetic, and imitating it is many times slower: "
            "--set training.precision=fp32"
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


def _has_its_model(workspace: Workspace, checkpoints: CheckpointFolder) -> bool:
    """Returns whether `model/` is the best checkpoint, or was made by hand with `average`."""
    record = workspace.read_manifest().get("model", {})
    best = choose_best(checkpoints.list(), 1)
    is_best = record.get("steps") == [checkpoint.state.step for checkpoint in best]
    return workspace.model.is_dir() and (record.get("made_by") == "average" or is_best)


def _finish(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    state: TrainingState,
    *,
    options: Sequence[str],
) -> None:
    """Fills `model/`, and says what came of the training and what comes next."""
    best = choose_best(CheckpointFolder(workspace.checkpoints).list(), 1)
    if best:
        tokenizer = data.tokenizer
        vocab_sizes = tokenizer.source_vocab_size, tokenizer.target_vocab_size
        best[0].check(list_shapes(recipe.model, *vocab_sizes).values())
        save_model_folder(
            workspace.model,
            recipe=recipe,
            weights=read_weights(best[0].weights_file),
            tokenizer=data.tokenizer,
            origin=f"the checkpoint of step {best[0].state.step}, the best on the development set",
            training_facts=describe_training(best[0].state, len(data.train)),
            record=lambda folder: workspace.record(
                "model",
                {
                    "made_by": "train",
                    "steps": [best[0].state.step],
                    "digest": digest_model(folder),
                },
            ),
        )
    show_summary(
        recipe,
        workspace,
        state,
        best[0] if best else None,
        options=options,
        is_finished=is_finished(recipe, state),
    )
