"""The end of a training: the best checkpoint in `model/`, and a summary."""

from collections.abc import Sequence

from mtkit.data.prepared import PreparedData
from mtkit.model.digest import digest_model
from mtkit.model.folder import save_model_folder
from mtkit.model.parameters import list_shapes
from mtkit.model.weights import read_weights
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import TrainingState, choose_best, describe_training
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.loop import is_finished
from mtkit.training.summary import show_summary
from mtkit.workspace import Workspace


def is_released(workspace: Workspace, checkpoints: CheckpointFolder) -> bool:
    """Checks that `model/` is the best checkpoint, or was made by hand with `average`."""
    record = workspace.read_manifest().get("model", {})
    best = choose_best(checkpoints.list(), 1)
    is_best = record.get("steps") == [checkpoint.state.step for checkpoint in best]
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

    Args:
        recipe: What was trained.
        workspace: Where its checkpoints are and its model goes.
        data: The run's data.
        state: Where training ended, or was stopped.
        options: What makes a command come to the same recipe and workspace.

    Raises:
        MtkitError: The best checkpoint is damaged.
    """
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
