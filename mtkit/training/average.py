"""The front door of `mtkit average`: the mean of several checkpoints becomes `model/`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mtkit.console import say, warn
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.inference.model_folder import read_settings, save_model_folder
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    choose_best,
    describe_training,
)
from mtkit.training.same_run import check_same_run
from mtkit.workspace import Workspace


def average(
    recipe: Recipe,
    workspace: Workspace,
    *,
    choose: Literal["last", "best"],
    num_checkpoints: int,
) -> None:
    """Leaves in `model/` the mean of a run's last or best checkpoints.

    Raises:
        MtkitError: No checkpoints, those of another run, or a damaged one.
    """
    saved = CheckpointFolder(workspace.checkpoints).list()
    if not saved:
        raise MtkitError(f"{workspace.checkpoints}: no checkpoints", "run `mtkit train` first")
    data = open_prepared(recipe, workspace)
    check_same_run(recipe, data.digest, saved)
    chosen = _choose(saved, choose, num_checkpoints)
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
    steps = [checkpoint.state.step for checkpoint in chosen]
    save_model_folder(
        workspace.model,
        recipe=recipe,
        weights=mean_weights([checkpoint.weights_file for checkpoint in chosen]),
        tokenizer=data.tokenizer,
        origin="the mean of the checkpoints of steps " + ", ".join(map(str, steps)),
        training_facts=describe_training(chosen[-1].state, len(data.train)),
    )
    workspace.record("model", {"made_by": "average", "steps": steps})
    plural = "s" * (len(steps) != 1)
    numbers = ", ".join(f"{step:,}" for step in steps)
    say(f"averaged {len(steps)} checkpoint{plural} (step{plural} {numbers})")


def is_averaged(recipe: Recipe, workspace: Workspace) -> bool:
    """Returns whether `model/` is the mean that the recipe asks for."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    averaging = recipe.training.averaging
    chosen = _choose(saved, averaging.choose, averaging.num_checkpoints)
    steps = [checkpoint.state.step for checkpoint in chosen]
    record = workspace.read_manifest().get("model", {})
    is_mean_of_these = record.get("made_by") == "average" and record["steps"] == steps
    return (
        is_mean_of_these
        and workspace.model.is_dir()
        and read_settings(workspace.model) == recipe.inference
    )


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of each weight over several safetensors files.

    Holds one set of fp64 sums and one weight at a time, however many files there are.

    Raises:
        MtkitError: A file is damaged, or holds other weights than the first.
    """
    sums: dict[str, Tensor] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as tensors:
                names = set(tensors.keys())
                if sums and names != sums.keys():
                    raise MtkitError(f"{path}: holds other weights than {files[0]}")
                for name in sorted(names):
                    weight = tensors.get_tensor(name)
                    if name in sums and sums[name].shape != weight.shape:
                        raise MtkitError(f"{path}: {name} is of another shape than in {files[0]}")
                    sums[name] = sums[name].add_(weight) if name in sums else weight.double()
        except (OSError, SafetensorError) as error:
            raise MtkitError(
                f"{path}: damaged or missing: {error}",
                f"remove {path.parent} to average the other checkpoints",
            ) from error
    return {name: (total / len(files)).to(torch.float32) for name, total in sums.items()}


def _choose(saved: list[Checkpoint], choose: str, count: int) -> list[Checkpoint]:
    """Returns the last checkpoints, or the best, in the order of their steps.

    One that was saved at a stop, between two regular ones, has no score and isn't counted.
    """
    regular = [checkpoint for checkpoint in saved if checkpoint.score is not None]
    if choose == "last":
        return regular[-count:]
    return sorted(choose_best(regular, count), key=lambda checkpoint: checkpoint.state.step)
