"""Means of weights over several checkpoints."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mtkit.errors import MtkitError
from mtkit.paths import for_library


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of each weight over several safetensors files, in fp32.

    Holds one set of fp64 sums and one weight at a time, however many files there are.

    Args:
        files: Oldest first, as `RunningMean` takes them, whose means are the same to the bit.

    Raises:
        MtkitError: A file is damaged, or its weights differ from another's in name or shape.
    """
    sums: dict[str, Tensor] = {}
    for path in reversed(files):
        _add_weights(sums, path, first=files[-1])
    # Each sum gives way to its mean: both sets would be half as much again.
    return {name: sums.pop(name).div_(len(files)).to(torch.float32) for name in list(sums)}


class RunningMean:
    """Means of one set of files after another; a set that only adds older files reuses the sums.

    Holds one set of fp64 sums between calls. They begin with the newest file: the last three
    checkpoints are the last two and an older one.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._added: list[Path] = []

    def of(self, files: Sequence[Path]) -> dict[str, Tensor]:
        """Returns what `mean_weights` does, to the bit.

        Raises:
            MtkitError: A file is damaged, or its weights differ from another's in name or shape.
        """
        newest_first = list(reversed(files))
        if newest_first[: len(self._added)] != self._added:
            self._sums, self._added = {}, []
        for path in newest_first[len(self._added) :]:
            _add_weights(self._sums, path, first=newest_first[0])
            self._added.append(path)
        return {name: (total / len(files)).to(torch.float32) for name, total in self._sums.items()}


def _add_weights(sums: dict[str, Tensor], path: Path, *, first: Path) -> None:
    """Adds a file's weights to sums, which are empty before the first file."""
    try:
        with for_library(path) as file, safe_open(file, framework="pt") as tensors:
            names = set(tensors.keys())
            if sums and names != sums.keys():
                raise MtkitError(f"{path}: its weights have other names than those in {first}")
            for name in sorted(names):
                weight = tensors.get_tensor(name)
                if name in sums and sums[name].shape != weight.shape:
                    raise MtkitError(f"{path}: {name} has a different shape in {first}")
                sums[name] = sums[name].add_(weight) if name in sums else weight.double()
    except (OSError, SafetensorError) as error:
        raise MtkitError(
            f"{path}: damaged or missing: {error}",
            f"remove {path.parent} to average the other checkpoints",
        ) from error
