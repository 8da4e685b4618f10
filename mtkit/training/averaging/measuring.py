"""Weights measured on the development set, outside a training."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from mtkit.console import say
from mtkit.data.prepared import PreparedData
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.weights import load_weights
from mtkit.network.device import limit_threads
from mtkit.recipe import Recipe
from mtkit.training.averaging.candidates import Candidate, Measured
from mtkit.training.averaging.mean import RunningMean
from mtkit.training.build import build_validator
from mtkit.training.distributed import Processes
from mtkit.training.memory import is_out_of_memory
from mtkit.training.validation import ValidationResult
from mtkit.training.whole_weights import WholeWeights
from mtkit.units import plural


def describe_development(recipe: Recipe, data: PreparedData) -> str:
    """Returns what a model is measured on, in words."""
    if recipe.data.is_text:
        return plural(len(data.dev), "block")
    return f"{len(data.dev):,} sentences, beam {recipe.training.validation.beam_size}"


class Measuring:
    """A run's model on a device, which takes one set of weights after another and measures it.

    Raises:
        MtkitError: Memory runs out, or a tokeniser for scores isn't installed.
    """

    def __init__(self, recipe: Recipe, data: PreparedData, device: torch.device) -> None:
        limit_threads()
        with _naming_memory(device):
            self._validator = build_validator(recipe, data, Processes(0, 1, device), forks=True)
            config = ModelConfig.of(recipe, data.tokenizer, data.labels)
            self._model = build(config, has_initial_weights=False).to(device).eval()
        self._device = device
        self._whole = WholeWeights(recipe, data.tokenizer, tuple(data.labels))

    def measure(
        self, weights: Mapping[str, Tensor], *, origin: Path, base_digest: str = ""
    ) -> ValidationResult:
        """Returns what a model with these weights is worth, as training would have measured it.

        Args:
            weights: A checkpoint's, or the mean of several's.
            origin: Their source, for messages.
            base_digest: That of the checkpoint.

        Raises:
            MtkitError: Memory runs out, or the development set can't be translated.
        """
        with _naming_memory(self._device):
            whole = self._whole.of(weights, base_digest)
            load_weights(self._model, whole, origin=origin)
            return self._validator.validate(self._model)


def measure_candidates(
    recipe: Recipe, data: PreparedData, candidates: Sequence[Candidate], device: torch.device
) -> list[Measured]:
    """Returns the candidates as training would have measured them.

    Raises:
        MtkitError: A damaged checkpoint, memory runs out, or the development set can't be
            translated or scored.
    """
    measuring, running = Measuring(recipe, data, device), RunningMean()
    measured = []
    for number, candidate in enumerate(candidates, start=1):
        say(f"measuring {number} of {len(candidates)}: {candidate.name}")
        files = [checkpoint.weights_file for checkpoint in candidate.checkpoints]
        validation = measuring.measure(
            running.of(files),
            origin=files[0],
            base_digest=candidate.checkpoints[0].base_digest,
        )
        measured.append(Measured.of(candidate, validation))
    return measured


@contextmanager
def _naming_memory(device: torch.device) -> Iterator[None]:
    """Lets a fault of memory name the way out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise MtkitError(
            f"out of memory on {device.type} while measuring a model on the development set",
            "--device cpu" if device.type == "cuda" else "close other programs",
        ) from error
