"""Checkpoints: saved whole or not at all, listed, kept, loaded; no pickle anywhere.

checkpoints/step-00001500/
    model.safetensors      the weights, as in a model folder
    optimizer.safetensors  both moments of Adam, by weight
    state.json             where training stands, the development score, the recipe

Chance needs no state: each update's generator is seeded by the recipe's seed, step and rank.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mtkit.errors import MtkitError
from mtkit.inference.model_folder import (
    WEIGHTS_FILE,
    load_weights,
    pack_weights,
    read_weights,
    write_tensors,
)
from mtkit.training.frozen import list_frozen
from mtkit.workspace import (
    building,
    discard_folder,
    read_json,
    remove_folder,
    restore_retired,
    write_atomically,
)

_OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class TrainingState:
    """Where training stands after an update.

    Attributes:
        step: Updates done.
        epoch: Passes over the data finished.
        position: Updates done of the current epoch.
        target_tokens: Real target tokens seen, `</s>` counted.
        elapsed_seconds: Time spent in training, validation included, earlier sessions too.
        best_score: Best development score so far; greater is better.
        num_without_best: Checkpoints since that one.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    target_tokens: int = 0
    elapsed_seconds: float = 0.0
    best_score: float | None = None
    num_without_best: int = 0

    def after_validation(self, score: float) -> "TrainingState":
        """Returns the state with a new checkpoint's score taken in."""
        if self.best_score is None or score > self.best_score:
            return replace(self, best_score=score, num_without_best=0)
        return replace(self, num_without_best=self.num_without_best + 1)


@dataclass(frozen=True)
class Checkpoint:
    """One saved checkpoint.

    Attributes:
        folder: Where it lies.
        state: Where training stood.
        score: Its development score, greater is better; none where it was saved at a stop.
        recipe: The recipe it was trained with, as plain tables.
        data_digest: Digest of the data it was trained on.
    """

    folder: Path
    state: TrainingState
    score: float | None
    recipe: dict[str, Any]
    data_digest: str

    @property
    def weights_file(self) -> Path:
        """Its weights."""
        return self.folder / WEIGHTS_FILE


class CheckpointFolder:
    """The checkpoints of a run.

    Args:
        folder: The workspace's folder for them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list(self) -> list[Checkpoint]:
        """Returns all complete checkpoints, oldest first.

        Raises:
            MtkitError: One of them is damaged.
        """
        for retired in list(self._folder.glob(".step-*.retired")):
            restore_retired(retired.with_name(retired.name[1:].removesuffix(".retired")))
        return [read_checkpoint(folder) for folder in sorted(self._folder.glob("step-*"))]

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        state: TrainingState,
        *,
        score: float | None,
        recipe: dict[str, Any],
        data_digest: str,
    ) -> Checkpoint:
        """Leaves a checkpoint that a crash can't leave half written."""
        folder = self._folder / f"step-{state.step:08d}"
        with building(folder) as draft:
            write_tensors(pack_weights(model), draft / WEIGHTS_FILE)
            write_tensors(_pack_moments(model, optimizer), draft / _OPTIMIZER_FILE)
            facts = {
                "state": asdict(state),
                "score": score,
                "recipe": recipe,
                "data_digest": data_digest,
            }
            write_atomically(draft / STATE_FILE, json.dumps(facts, indent=2, ensure_ascii=False))
        return Checkpoint(folder, state, score, recipe, data_digest)

    def prune(self, *, keep_last: int, keep_best: int) -> None:
        """Removes all but the most recent checkpoints and those with the best scores.

        One that was saved at a stop, without a score, is kept only until the next: it must not push
        out any of those that the mean is taken of.
        """
        checkpoints = self.list()
        regular = [checkpoint for checkpoint in checkpoints if checkpoint.score is not None]
        kept = regular[-keep_last:] + choose_best(regular, keep_best) + checkpoints[-1:]
        for checkpoint in checkpoints:
            if checkpoint not in kept:
                discard_folder(checkpoint.folder)

    def sweep(self) -> None:
        """Removes what a kill left of checkpoints that were being saved or removed."""
        for pattern in (".step-*.draft", ".step-*.discarded"):
            for folder in self._folder.glob(pattern):
                remove_folder(folder)

    def restore(
        self, checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        """Leaves model and optimizer as they were when the checkpoint was saved.

        A weight that was frozen then and learns now has moments of 0, as if it had had no gradient
        so far.

        Raises:
            MtkitError: A file of it is missing, damaged, or of another model.
        """
        hint = f"remove {checkpoint.folder} to go on from the checkpoint before it"
        try:
            weights = read_weights(checkpoint.weights_file)
            load_weights(model, weights, origin=str(checkpoint.weights_file))
        except MtkitError as error:
            raise MtkitError(error.message, hint) from error
        path = checkpoint.folder / _OPTIMIZER_FILE
        try:
            moments = load_file(path)
        except (OSError, SafetensorError) as error:
            raise MtkitError(f"{path}: damaged or missing: {error}", hint) from error
        frozen = list_frozen(model, checkpoint.recipe.get("training", {}).get("freeze", ()))
        _check_moments(model, frozen, moments, path, hint)
        _load_moments(model, optimizer, moments, checkpoint.state.step)


def choose_best(checkpoints: list[Checkpoint], count: int) -> list[Checkpoint]:
    """Returns the checkpoints with the best scores, best first; the earlier where two are equal."""
    scored = [checkpoint for checkpoint in checkpoints if checkpoint.score is not None]
    return sorted(scored, key=lambda checkpoint: -(checkpoint.score or 0.0))[:count]


def describe_training(state: TrainingState, num_pairs: int) -> dict[str, str]:
    """Returns what a model's card says of its training, by name."""
    return {
        "sentence pairs": f"{num_pairs:,}",
        "updates": f"{state.step:,}",
        "target tokens seen": f"{state.target_tokens:,}",
        "time": str(timedelta(seconds=round(state.elapsed_seconds))),
    }


def read_checkpoint(folder: Path) -> Checkpoint:
    """Returns the checkpoint in a folder.

    Raises:
        MtkitError: It is damaged.
    """
    try:
        facts = read_json(folder / STATE_FILE)
        state = TrainingState(**facts["state"])
        return Checkpoint(folder, state, facts["score"], facts["recipe"], facts["data_digest"])
    except (MtkitError, OSError, KeyError, TypeError) as error:
        raise MtkitError(
            f"{folder}: damaged checkpoint: {error}",
            f"remove {folder} to go on from the checkpoint before it",
        ) from error


def _pack_moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{moment}.{name}": optimizer.state[weight][moment].detach().cpu().contiguous()
        for name, weight in model.named_parameters()
        if weight in optimizer.state
        for moment in _MOMENTS
    }


def _check_moments(
    model: nn.Module, frozen: set[str], moments: dict[str, Tensor], path: Path, hint: str
) -> None:
    expected = {
        f"{moment}.{name}": weight.shape
        for name, weight in model.named_parameters()
        if name not in frozen
        for moment in _MOMENTS
    }
    for name in sorted(expected.keys() | moments.keys()):
        if name not in moments or name not in expected:
            what = "missing" if name in expected else "unexpected"
            raise MtkitError(f"{path}: {name} is {what}", hint)
        if moments[name].shape != expected[name]:
            raise MtkitError(
                f"{path}: {name} is of shape {list(moments[name].shape)}, expected "
                f"{list(expected[name])}",
                hint,
            )


def _load_moments(
    model: nn.Module, optimizer: torch.optim.Optimizer, moments: dict[str, Tensor], step: int
) -> None:
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            found = (moments.get(f"{moment}.{name}") for moment in _MOMENTS)
            optimizer.state[weight] = {
                "step": torch.tensor(float(step), device=weight.device),
                **{
                    moment: torch.zeros_like(weight) if mean is None else mean.to(weight, copy=True)
                    for moment, mean in zip(_MOMENTS, found, strict=True)
                },
            }
