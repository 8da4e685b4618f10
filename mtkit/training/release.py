"""Checkpoints released to `model/`; the end of a training, which releases the best."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from mtkit.data.prepared import PreparedData
from mtkit.model.digest import digest_model
from mtkit.model.folder import save_model_folder
from mtkit.model.parameters import list_shapes
from mtkit.model.weights import read_weights
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import (
    Checkpoint,
    TrainingState,
    choose_best,
    describe_training,
    list_steps,
)
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.loop import is_finished
from mtkit.training.summary import show_summary
from mtkit.workspace import Workspace


def save_model(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    chosen: Sequence[Checkpoint],
    weights: Mapping[str, Tensor],
    *,
    made_by: str,
    remark: str = "",
    record: Mapping[str, Any] | None = None,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Fills `model/` with the mean of some checkpoints, and says so in the manifest.

    Args:
        recipe: The run's recipe.
        workspace: The run.
        data: The run's data.
        chosen: One checkpoint or more, oldest first.
        weights: Their mean.
        made_by: `train` or `average`.
        remark: What the model's card adds to their steps.
        record: More for the manifest.
        facts: More for the model's card, by name.
    """
    steps = list_steps(chosen)
    names = ", ".join(map(str, steps))
    several = f"the mean of the checkpoints of steps {names}"
    origin = several if len(steps) > 1 else f"the checkpoint of step {names}"
    save_model_folder(
        workspace.model,
        recipe=recipe,
        weights=weights,
        tokenizer=data.tokenizer,
        origin=origin + remark,
        training_facts=describe_training(chosen[-1].state, len(data.train)) | dict(facts or {}),
        record=lambda folder: workspace.record(
            "model",
            {"made_by": made_by, "steps": steps, **(record or {}), "digest": digest_model(folder)},
        ),
    )


def is_released(workspace: Workspace, checkpoints: CheckpointFolder) -> bool:
    """Checks that `model/` is the best checkpoint, or was made by hand with `average`."""
    record = workspace.read_manifest().get("model", {})
    best = choose_best(checkpoints.list(), 1)
    is_best = record.get("steps") == list_steps(best)
    return workspace.model.is_dir() and (record.get("made_by") == "average" or is_best)


def release(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    state: TrainingState,
    *,
    options: Sequence[str],
) -> None:
    """Fills `model/`, and prints a summary of the training with the commands that come next.

    Raises:
        MtkitError: The best checkpoint is damaged.
    """
    best = choose_best(CheckpointFolder(workspace.checkpoints).list(), 1)
    if best:
        best[0].check(list_shapes(recipe.model, *data.tokenizer.vocab_sizes.values()).values())
        save_model(
            recipe,
            workspace,
            data,
            best,
            read_weights(best[0].weights_file),
            made_by="train",
            remark=", the best on the development set",
        )
    show_summary(
        recipe,
        workspace,
        state,
        best[0] if best else None,
        options=options,
        is_finished=is_finished(recipe, state),
    )
