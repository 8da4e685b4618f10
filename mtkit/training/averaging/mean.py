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
        files: Oldest first; they are added up from the newest on.

    Raises:
        MtkitError: A file is damaged, or its weights differ from another's in name or shape.
    """
    sums: dict[str, Tensor] = {}
    for path in reversed(files):
        try:
            with for_library(path) as file, safe_open(file, framework="pt") as tensors:
                names = set(tensors.keys())
                if sums and names != sums.keys():
                    raise MtkitError(
                        f"{path}: its weights have other names than those in {files[-1]}"
                    )
                for name in sorted(names):
                    weight = tensors.get_tensor(name)
                    if name in sums and sums[name].shape != weight.shape:
                        raise MtkitError(f"{path}: {name} has a different shape in {files[-1]}")
                    sums[name] = sums[name].add_(weight) if name in sums else weight.double()
        except (OSError, SafetensorError) as error:
            raise MtkitError(
                f"{path}: damaged or missing: {error}",
                f"remove {path.parent} to average the other checkpoints",
            ) from error
    # Each sum gives way to its mean: both sets would be half as much again.
    return {name: sums.pop(name).div_(len(files)).to(torch.float32) for name in list(sums)}
