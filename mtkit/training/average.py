"""The front door of `mtkit average`: one model, the mean of several checkpoints, to `model/`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mtkit.console import open_console, say, warn
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.errors import MtkitError
from mtkit.inference.model_config import read_settings
from mtkit.inference.model_folder import load_weights, save_model_folder
from mtkit.inference.weights_file import Shape, check_weights, list_shapes
from mtkit.model import EncoderDecoder
from mtkit.model.device import find_device
from mtkit.recipe import Recipe
from mtkit.training.candidates import (
    Candidate,
    Choice,
    Measured,
    as_tables,
    choose_checkpoints,
    choose_winner,
    describe_candidates,
    list_candidates,
    show_candidates,
)
from mtkit.training.checkpoint import Checkpoint, CheckpointFolder, describe_training
from mtkit.training.distributed import Processes
from mtkit.training.metrics import LABELS
from mtkit.training.same_run import check_same_run
from mtkit.training.validation import Validator
from mtkit.workspace import Workspace

_SELECTION = "selection"
"""Where the manifest says what was compared when `select` made the model."""


def average(recipe: Recipe, workspace: Workspace, *, choose: Choice, num_checkpoints: int) -> None:
    """Leaves in `model/` the mean of some of a run's checkpoints.

    Args:
        recipe: The run's recipe.
        workspace: Where the checkpoints are and the model goes.
        choose: The last, the best, or those spread evenly over all that were kept.
        num_checkpoints: How many of them.

    Raises:
        MtkitError: No checkpoints, those of another run, or a damaged one.
    """
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
    _save(recipe, workspace, data, chosen)
    say(f"averaged {_count(chosen)}")


def select(recipe: Recipe, workspace: Workspace, *, device: str = "auto") -> None:
    """Leaves in `model/` what is worth most on the development set, checkpoint or mean.

    Compares the last checkpoint, even if it was saved at a stop, the best one, and the means of the
    last, the best and the evenly spaced `training.averaging.num_checkpoints`, as training measures
    them; `training.validation.metric` decides.

    Args:
        recipe: The run's recipe.
        workspace: Where the checkpoints are and the model goes.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.

    Raises:
        MtkitError: No checkpoints, those of another run, a damaged one, or no such device.
    """
    place = find_device(device)
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
    measured = _measure(recipe, data, candidates, place)
    winner = choose_winner(measured)
    show_candidates(measured, winner, open_console())
    selection = {
        "metric": metric,
        "checkpoints": _steps(saved),
        "candidates": as_tables(measured),
    }
    # The winner's mean is taken once more: all candidates' might not fit in memory.
    _save(recipe, workspace, data, list(winner.candidate.checkpoints), selection=selection)
    say(
        f"the winner by development {LABELS.get(metric, metric)} is {winner.candidate.name}; the "
        f"model is made of {_count(winner.candidate.checkpoints)}"
    )


def is_averaged(recipe: Recipe, workspace: Workspace) -> bool:
    """Returns whether `update_model` would leave `model/` as it is."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    averaging = recipe.training.averaging
    chosen = _read_selected(workspace, saved) or choose_checkpoints(
        saved, averaging.choose, averaging.num_checkpoints
    )
    record = workspace.read_manifest().get("model", {})
    is_mean_of_these = record.get("made_by") == "average" and record.get("steps") == _steps(chosen)
    return (
        is_mean_of_these
        and workspace.model.is_dir()
        and read_settings(workspace.model) == recipe.inference
    )


def update_model(recipe: Recipe, workspace: Workspace) -> None:
    """Leaves in `model/` the mean that the recipe asks for, or what `select` chose before.

    What it chose stays chosen until the run's checkpoints are others.

    Raises:
        MtkitError: No checkpoints, those of another run, or a damaged one.
    """
    saved, data = _open_run(recipe, workspace)
    if selected := _read_selected(workspace, saved):
        selection = workspace.read_manifest()["model"][_SELECTION]
        _save(recipe, workspace, data, selected, selection=selection)
        say(f"kept what was selected before: {_count(selected)}")
    else:
        averaging = recipe.training.averaging
        average(
            recipe,
            workspace,
            choose=averaging.choose,
            num_checkpoints=averaging.num_checkpoints,
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
    # Each sum gives way to its mean: both sets would be half as much again.
    return {name: sums.pop(name).div_(len(files)).to(torch.float32) for name in list(sums)}


def _open_run(recipe: Recipe, workspace: Workspace) -> tuple[list[Checkpoint], PreparedData]:
    """Returns the run's checkpoints, oldest first, and its data."""
    saved = CheckpointFolder(workspace.checkpoints).list()
    if not saved:
        raise MtkitError(f"{workspace.checkpoints}: no checkpoints", "run `mtkit train` first")
    data = open_prepared(recipe, workspace)
    check_same_run(recipe, data.digest, saved)
    return saved, data


def _measure(
    recipe: Recipe, data: PreparedData, candidates: Sequence[Candidate], device: torch.device
) -> list[Measured]:
    """Returns the candidates as training would have measured them."""
    validator = Validator(recipe, data, Processes(0, 1, device))
    shapes = _list_shapes(recipe, data)
    with torch.random.fork_rng(devices=()):
        # The initial weights are thrown away; drawing them must not move the caller's generator.
        model = EncoderDecoder(
            recipe.model, data.tokenizer.source_vocab_size, data.tokenizer.target_vocab_size
        )
    model = model.to(device).eval()
    measured = []
    for number, candidate in enumerate(candidates, start=1):
        say(f"measuring {number} of {len(candidates)}: {candidate.name}")
        files = [checkpoint.weights_file for checkpoint in candidate.checkpoints]
        for file in files:
            check_weights(file, shapes)
        load_weights(model, mean_weights(files), origin=str(files[0]))
        measured.append(Measured.of(candidate, validator.validate(model)))
    return measured


def _save(
    recipe: Recipe,
    workspace: Workspace,
    data: PreparedData,
    chosen: Sequence[Checkpoint],
    *,
    selection: dict[str, Any] | None = None,
) -> None:
    """Leaves in `model/` the mean of some checkpoints, and in the manifest what it is.

    Args:
        recipe: The run's recipe.
        workspace: The run.
        data: The run's data.
        chosen: One checkpoint or more, oldest first.
        selection: What was compared, as the manifest has it, where they were selected.
    """
    shapes = _list_shapes(recipe, data)
    for checkpoint in chosen:
        checkpoint.check(shapes.values())
        check_weights(checkpoint.weights_file, shapes)
    steps = ", ".join(map(str, _steps(chosen)))
    facts = describe_training(chosen[-1].state, len(data.train))
    record: dict[str, Any] = {"made_by": "average", "steps": _steps(chosen)}
    if selection is not None:
        facts["compared on the development set"] = (
            f"the best by {LABELS.get(selection['metric'], selection['metric'])} was kept\n"
            + "\n".join(f"  - {line}" for line in describe_candidates(selection["candidates"]))
        )
        record[_SELECTION] = selection
    save_model_folder(
        workspace.model,
        recipe=recipe,
        weights=mean_weights([checkpoint.weights_file for checkpoint in chosen]),
        tokenizer=data.tokenizer,
        origin=f"the mean of the checkpoints of steps {steps}"
        if len(chosen) > 1
        else f"the checkpoint of step {steps}",
        training_facts=facts,
    )
    workspace.record("model", record)


def _list_shapes(recipe: Recipe, data: PreparedData) -> dict[str, Shape]:
    tokenizer = data.tokenizer
    return list_shapes(recipe.model, tokenizer.source_vocab_size, tokenizer.target_vocab_size)


def _read_selected(workspace: Workspace, saved: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Returns what `select` made the model of; nothing where it chose from other checkpoints."""
    record = workspace.read_manifest().get("model", {})
    selection = record.get(_SELECTION)
    if selection is None or selection["checkpoints"] != _steps(saved):
        return []
    return [checkpoint for checkpoint in saved if checkpoint.state.step in record["steps"]]


def _steps(checkpoints: Sequence[Checkpoint]) -> list[int]:
    return [checkpoint.state.step for checkpoint in checkpoints]


def _count(checkpoints: Sequence[Checkpoint]) -> str:
    """Returns how many checkpoints there are, and their steps, in words."""
    plural = "s" * (len(checkpoints) != 1)
    numbers = ", ".join(f"{step:,}" for step in _steps(checkpoints))
    return f"{len(checkpoints)} checkpoint{plural} (step{plural} {numbers})"
