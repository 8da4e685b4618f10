"""Weights measured on the development set, outside a training."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from mtkit.console import say
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.weights import load_weights
from mtkit.network.device import limit_threads
from mtkit.training.averaging.candidates import Candidate, Measured
from mtkit.training.averaging.mean import mean_weights
from mtkit.training.build import build_validator
from mtkit.training.distributed import Processes
from mtkit.training.memory import is_out_of_memory
from mtkit.training.training_run import TrainingRun
from mtkit.training.whole_weights import WholeWeights
from mtkit.units import plural


def describe_development(run: TrainingRun) -> str:
    """Returns what a model is measured on, in words."""
    count = len(run.data.dev)
    if run.recipe.data.is_text:
        return plural(count, "block")
    return f"{count:,} sentences, beam {run.recipe.training.validation.beam_size}"


class Measuring:
    """A run's model on a device, which takes one set of weights after another and measures it.

    Raises:
        MtkitError: Memory runs out, or a tokeniser for scores isn't installed.
    """

    def __init__(self, run: TrainingRun, device: torch.device) -> None:
        limit_threads()
        with _naming_memory(device):
            self._validator = build_validator(run, Processes(0, 1, device), forks=True)
            model = build(run.model_config, has_initial_weights=False)
            self._model = model.to(device).eval()
        self._device = device
        self._whole = WholeWeights(run.recipe, run.data.tokenizer, tuple(run.data.labels))

    def measure(self, candidate: Candidate, weights: Mapping[str, Tensor]) -> Measured:
        """Returns what a candidate is worth, as training would have measured it.

        Args:
            candidate: One checkpoint or several.
            weights: The checkpoint's, or the mean of the several's.

        Raises:
            MtkitError: Memory runs out, or the development set can't be translated.
        """
        first = candidate.checkpoints[0]
        with _naming_memory(self._device):
            whole = self._whole.of(weights, first.base_digest)
            load_weights(self._model, whole, origin=first.weights_file)
            return Measured.of(candidate, self._validator.validate(self._model))


def measure_candidates(
    run: TrainingRun, candidates: Sequence[Candidate], device: torch.device
) -> list[Measured]:
    """Returns the candidates as training would have measured them.

    Raises:
        MtkitError: A damaged checkpoint, memory runs out, or the development set can't be
            translated or scored.
    """
    measuring = Measuring(run, device)
    measured = []
    for number, candidate in enumerate(candidates, start=1):
        say(f"measuring {number} of {len(candidates)}: {candidate.name}")
        measured.append(measuring.measure(candidate, mean_weights(candidate.files)))
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
