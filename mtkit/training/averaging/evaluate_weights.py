"""Measures weights on the development set outside training; compares a mean with checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.files import digest
from mtkit.model.build import build
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.weights import load_weights, read_weights
from mtkit.network.device import is_out_of_memory, limit_threads
from mtkit.paths import for_library
from mtkit.training.averaging.model_record import Candidate, MeanComparison, ScoredCandidate
from mtkit.training.build_learner import build_validator
from mtkit.training.checkpoint import Checkpoint, choose_best, list_score_settings
from mtkit.training.distributed import ProcessGroup
from mtkit.training.training_run import TrainingRun
from mtkit.units import plural


def describe_development(run: TrainingRun) -> str:
    """Returns what a model is measured on, in words."""
    count = len(run.data.dev)
    if run.recipe.data.is_text:
        return plural(count, "block")
    return f"{count:,} sentences, beam {run.recipe.training.validation.beam_size}"


class WeightsEvaluator:
    """A run's model on a device, loaded with one set of weights after another and measured."""

    def __init__(self, run: TrainingRun, device: torch.device) -> None:
        limit_threads()
        with _naming_memory(device):
            self._validator = build_validator(run, ProcessGroup(0, 1, device))
            model = build(run.model_config, has_initial_weights=False)
            self._model = model.to(device).eval()
        self._device = device
        self._whole = run.whole_weights

    def measure(self, candidate: Candidate, weights: Mapping[str, Tensor]) -> ScoredCandidate:
        """Returns a candidate's scores, as training would have measured them."""
        first = candidate.checkpoints[0]
        with _naming_memory(self._device):
            whole = self._whole.of(weights, first.base_digest)
            load_weights(self._model, whole, origin=first.weights_file)
            return ScoredCandidate.of(candidate, self._validator.validate(self._model))


def measure_candidates(
    run: TrainingRun, candidates: Sequence[Candidate], device: torch.device
) -> list[ScoredCandidate]:
    """Returns the candidates' scores, as training would have measured them."""
    evaluator = WeightsEvaluator(run, device)
    measured = []
    for number, candidate in enumerate(candidates, start=1):
        say(f"evaluating {number} of {len(candidates)}: {candidate.name}")
        measured.append(evaluator.measure(candidate, mean_weights(candidate.files)))
    return measured


def digest_basis(
    tables: Mapping[str, Any], saved: Sequence[Checkpoint], chosen: Sequence[Checkpoint]
) -> str:
    """Returns the digest of everything that a comparison depends on; `chosen` are the mean's."""
    return digest(
        {
            "settings": list_score_settings(tables),
            "saved": [[c.state.step, c.score] for c in saved if c.score is not None],
            "chosen": [c.digests.get(WEIGHTS_FILE) for c in chosen],
        }
    )


def compare_mean(
    run: TrainingRun,
    saved: Sequence[Checkpoint],
    mean: Candidate,
    *,
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> MeanComparison | None:
    """Measures a mean on the development set and compares it with the best single checkpoint.

    Scores from training are used as they are. If training used other decoding or scoring settings
    than the recipe has now, the best of those checkpoints is measured again.

    Returns:
        The comparison; None, with a warning, if the mean can't be measured and the recipe only
        warns of a worse one. If the recipe replaces a worse mean, the error is raised.
    """
    training = run.recipe.training
    say(
        f"evaluating the average on the development set: {describe_development(run)} "
        "(--set training.averaging.if_worse=ignore skips this)"
    )
    try:
        evaluator = WeightsEvaluator(run, device)
        measured = evaluator.measure(mean, weights)
        single = _measure_best_single(run, saved, evaluator)
    except MtkitError as error:
        if training.averaging.if_worse == "replace":
            raise
        warn(f"the average was not compared with single checkpoints: {error.message}")
        return None
    return MeanComparison(
        metric=training.validation.score_name,
        mean=measured.record(),
        single=single.record(),
        is_mean_worse=single.score > measured.score,
        basis=digest_basis(run.tables, saved, mean.checkpoints),
    )


def _measure_best_single(
    run: TrainingRun, saved: Sequence[Checkpoint], evaluator: WeightsEvaluator
) -> ScoredCandidate:
    """Returns the best single checkpoint, measured again only if its score isn't comparable."""
    settings, metric = list_score_settings(run.tables), run.recipe.training.validation.score_name
    known = [c for c in saved if list_score_settings(c.recipe) == settings]
    others = [c for c in saved if c not in known]
    singles = [ScoredCandidate.by_training(best, metric) for best in choose_best(known, 1)]
    for best in choose_best(others, 1):
        say(f"evaluating step {best.state.step:,} again: training measured it with other settings")
        singles.append(
            evaluator.measure(Candidate("best", (best,)), read_weights(best.weights_file))
        )
    return max(singles, key=lambda one: one.score)


@contextmanager
def _naming_memory(device: torch.device) -> Iterator[None]:
    """Adds a hint to an out-of-memory error."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise MtkitError(
            f"out of memory on {device.type} while evaluating a model on the development set",
            "--device cpu" if device.type == "cuda" else "close other programs",
        ) from error


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of each weight over several safetensors files, oldest first, in fp32.

    Holds one set of fp64 sums and one weight at a time, however many files there are. Sums start
    from the newest file.
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
    # Each sum is dropped once its mean exists: both sets would be half as much again.
    return {name: sums.pop(name).div_(len(files)).to(torch.float32) for name in list(sums)}
