"""Adam's moments by the names of their weights, into a checkpoint's file and back."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from mtkit.errors import MtkitError
from mtkit.training.learner import Learner

_MOMENTS = ("exp_avg", "exp_avg_sq")
_NUM_UPDATES = "step"


def pack_moments(learner: Learner[nn.Module]) -> dict[str, Tensor]:
    """Returns both moments of each weight that learns, on the CPU, and the count of updates."""
    states = learner.optimizer.state
    moments = {
        f"{moment}.{name}": states[weight][moment].detach().cpu().contiguous()
        for name, weight in learner.model.named_parameters()
        if weight.requires_grad
        for moment in _MOMENTS
    }
    return {_NUM_UPDATES: torch.tensor(learner.num_updates), **moments}


def load_moments(
    learner: Learner[nn.Module], tensors: Mapping[str, Tensor], was_frozen: set[str], path: Path
) -> None:
    """Sets the state of the learner's optimizer to what `pack_moments` returned.

    A weight that was frozen then and learns now has moments of 0; `path` is for messages.

    Raises:
        MtkitError: They are of another model.
    """
    _refuse_misfits(learner.model, tensors, was_frozen, path)
    for name, weight in learner.model.named_parameters():
        if weight.requires_grad:
            state = learner.optimizer.state[weight]
            state["step"].fill_(float(tensors[_NUM_UPDATES]))
            for moment in _MOMENTS:
                saved = tensors.get(f"{moment}.{name}")
                state[moment].zero_() if saved is None else state[moment].copy_(saved)


def _refuse_misfits(
    model: nn.Module, tensors: Mapping[str, Tensor], was_frozen: set[str], path: Path
) -> None:
    hint = f"remove {path.parent} to resume from the checkpoint before it"
    expected = {
        f"{moment}.{name}": weight.shape
        for name, weight in model.named_parameters()
        if name not in was_frozen
        for moment in _MOMENTS
    }
    expected[_NUM_UPDATES] = torch.Size()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            what = "missing" if name in expected else "unexpected"
            raise MtkitError(f"{path}: {name} is {what}", hint)
        if tensors[name].shape != expected[name]:
            raise MtkitError(
                f"{path}: {name} has shape {list(tensors[name].shape)}, expected "
                f"{list(expected[name])}",
                hint,
            )
