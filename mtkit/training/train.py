"""The front door of `mtkit train`: data to checkpoints, and the best of them to `model/`."""

import torch

from mtkit.console import say, warn
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.inference.model_folder import read_weights, save_model_folder
from mtkit.model import EncoderDecoder
from mtkit.recipe import Recipe, dump_recipe
from mtkit.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    TrainingState,
    choose_best,
    describe_training,
)
from mtkit.training.distributed import Processes, join_processes, leave_processes
from mtkit.training.frozen import freeze
from mtkit.training.loop import Trainer, is_finished
from mtkit.training.metrics import MetricsLog
from mtkit.training.objective import TranslationObjective
from mtkit.training.optimizer import build_optimizer
from mtkit.training.progress import ProgressView
from mtkit.training.same_run import check_same_run, check_unchanged, list_changes
from mtkit.training.start_from import start_from
from mtkit.training.validation import Validator
from mtkit.workspace import Workspace, write_atomically


def train(recipe: Recipe, workspace: Workspace, *, device: str = "auto") -> bool:
    """Trains from the last checkpoint, if any, to the end, or until Ctrl-C or SIGTERM.

    In torchrun's workers it trains together with the others. `model/` holds the checkpoint with the
    best development score afterwards.

    Args:
        recipe: What to train.
        workspace: Where the data are and the checkpoints go.
        device: `auto` takes a GPU where there is one.

    Returns:
        Whether training came to its end; False where it was asked to stop.

    Raises:
        MtkitError: No data yet, another recipe's data or checkpoints, a damaged checkpoint, no such
            device, or a loss that is no number.
    """
    data = open_prepared(recipe, workspace)
    checkpoints = CheckpointFolder(workspace.checkpoints)
    saved = checkpoints.list()
    is_done = _is_done(recipe, data.digest, saved)
    state = saved[-1].state if saved else TrainingState()
    processes = join_processes(device)
    is_first = processes.is_first
    try:
        torch.manual_seed(recipe.seed)
        model = EncoderDecoder(
            recipe.model, data.tokenizer.source_vocab_size, data.tokenizer.target_vocab_size
        ).to(processes.device)
        if recipe.training.start_from is not None and not saved:
            start_from(recipe, model, data.tokenizer, is_told=is_first)
        freeze(model, recipe.training.freeze)
        optimizer = build_optimizer(model, recipe.training.optimizer)
        if saved:
            checkpoints.restore(saved[-1], model, optimizer)
        if is_first:
            _warn_of_slow_arithmetic(recipe, processes)
            _announce(recipe, model, state, processes, is_done=is_done)
        if not is_done:
            if is_first:
                _warn_of_changes(list_changes(recipe, saved))
                checkpoints.sweep()
                _write_down(recipe, workspace, processes)
            validator = Validator(recipe, data, processes)
            with ProgressView(recipe.training.max_steps, is_shown=is_first) as view:
                state = Trainer(
                    recipe=recipe,
                    objective=TranslationObjective(model, data, recipe, processes.device),
                    optimizer=optimizer,
                    processes=processes,
                    checkpoints=checkpoints,
                    validate=lambda: validator.validate(model),
                    metrics=MetricsLog(
                        workspace.metrics_file,
                        picture=workspace.learning_curve,
                        title=recipe.name,
                        resumed_at=state.step,
                    )
                    if is_first
                    else None,
                    view=view,
                    data_digest=data.digest,
                ).run(state)
        # Also where an earlier run was killed between its last checkpoint and this line.
        if is_first and not (is_done and _has_its_model(workspace, checkpoints)):
            _finish(recipe, workspace, checkpoints, data, state)
        return is_finished(recipe, state)
    finally:
        leave_processes()


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


def _announce(
    recipe: Recipe,
    model: EncoderDecoder,
    state: TrainingState,
    processes: Processes,
    *,
    is_done: bool,
) -> None:
    training = recipe.training
    num_parameters = sum(weight.numel() for weight in model.parameters())
    say(
        f"training {recipe.name}: {num_parameters:,} parameters, {training.precision}, "
        f"{processes.count} x {processes.device.type}; {training.batch_tokens:,} tokens a side per "
        f"update, up to {training.micro_batch_tokens:,} with padding in one pass"
    )
    if is_done:
        say(
            f"already at step {state.step:,} of {training.max_steps:,}: nothing to do; "
            "--set training.max_steps=... goes on"
        )
    elif state.step:
        say(f"going on from step {state.step:,}, epoch {state.epoch + 1}")


def _warn_of_changes(changes: list[str]) -> None:
    if changes:
        warn("from here on with other settings than so far: " + "; ".join(changes))


def _warn_of_slow_arithmetic(recipe: Recipe, processes: Processes) -> None:
    """Warns of bfloat16 on a processor that only imitates it: 20 times slower (docs/log.md)."""
    if (
        recipe.training.precision == "bf16"
        and processes.device.type == "cpu"
        and hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported")
        and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    ):
        warn(
            "this processor has no bfloat16 arithmetic, and imitating it is many times slower: "
            "--set training.precision=fp32"
        )


def _write_down(recipe: Recipe, workspace: Workspace, processes: Processes) -> None:
    write_atomically(workspace.recipe_file, dump_recipe(recipe))
    workspace.record(
        "train",
        {
            "seed": recipe.seed,
            "processes": processes.count,
            "device": processes.device.type,
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
    checkpoints: CheckpointFolder,
    data: PreparedData,
    state: TrainingState,
) -> None:
    """Fills `model/`, and says what comes next."""
    best = choose_best(checkpoints.list(), 1)
    if best:
        save_model_folder(
            workspace.model,
            recipe=recipe,
            weights=read_weights(best[0].weights_file),
            tokenizer=data.tokenizer,
            origin=f"the checkpoint of step {best[0].state.step}, the best on the development set",
            training_facts=describe_training(best[0].state, len(data.train)),
        )
        workspace.record("model", {"made_by": "train", "steps": [best[0].state.step]})
    if is_finished(recipe, state):
        reason = (
            "" if state.step >= recipe.training.max_steps else ": the development score has stopped"
        )
        say(f"finished at step {state.step:,}{reason}; next: mtkit average")
    else:
        say(
            f"stopped at step {state.step:,}; a checkpoint is saved, and the same command goes on "
            "from it"
        )
