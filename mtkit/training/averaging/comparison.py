"""The worth of a mean on the development set beside that of the best single checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mtkit.console import say, warn
from mtkit.data.prepared import PreparedData
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.weights import read_weights
from mtkit.recipe import Recipe
from mtkit.training.averaging.candidates import Candidate, Measured
from mtkit.training.averaging.measuring import Measuring, describe_development
from mtkit.training.averaging.record import MeanComparison, ModelRecord
from mtkit.training.checkpoint import Checkpoint, choose_best
from mtkit.training.validation import list_score_settings


def is_to_be_compared(recipe: Recipe, chosen: Sequence[Checkpoint]) -> bool:
    """Checks that the recipe asks what the mean of these checkpoints is worth."""
    return recipe.training.averaging.if_worse != "ignore" and len(chosen) > 1


def read_comparison(
    recipe: Recipe, record: ModelRecord, saved: Sequence[Checkpoint], chosen: Sequence[Checkpoint]
) -> MeanComparison | None:
    """Returns the comparison that was made for the present model, if it holds for this mean."""
    if not is_to_be_compared(recipe, chosen) or record.comparison is None:
        return None
    return (
        record.comparison
        if record.comparison.basis == _digest_basis(recipe, saved, chosen)
        else None
    )


def compare(
    recipe: Recipe,
    data: PreparedData,
    saved: Sequence[Checkpoint],
    mean: Candidate,
    *,
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> MeanComparison | None:
    """Measures a mean on the development set, and compares it with the best single checkpoint.

    Scores that training measured are taken as they are. Where it had other settings of decoding or
    scoring than the recipe has now, the best of those checkpoints is measured again.

    Returns:
        The comparison; None where the recipe doesn't ask for it or, with a warning, where a worse
        mean would only be warned of and it can't be measured.

    Raises:
        MtkitError: The recipe has a worse mean replaced, and it can't be measured.
    """
    if not is_to_be_compared(recipe, mean.checkpoints):
        return None
    say(
        f"measuring the average on the development set: {describe_development(recipe, data)} "
        "(--set training.averaging.if_worse=ignore skips this)"
    )
    try:
        measuring = Measuring(recipe, data, device)
        first = mean.checkpoints[0]
        found = measuring.measure(weights, origin=first.weights_file, base_digest=first.base_digest)
        measured = Measured.of(mean, found)
        single = _measure_best_single(recipe, saved, measuring)
    except MtkitError as error:
        if recipe.training.averaging.if_worse == "replace":
            raise
        warn(f"the average was not compared with single checkpoints: {error.message}")
        return None
    return MeanComparison(
        metric=recipe.training.validation.metric,
        mean=measured.record(),
        single=single.record(),
        is_mean_worse=single.score > measured.score,
        basis=_digest_basis(recipe, saved, mean.checkpoints),
    )


def _digest_basis(recipe: Recipe, saved: Sequence[Checkpoint], chosen: Sequence[Checkpoint]) -> str:
    """Returns the digest of what a comparison of a mean with the run's checkpoints depends on."""
    return digest(
        {
            "settings": _list_settings(recipe),
            "saved": [[c.state.step, c.score] for c in saved if c.score is not None],
            "chosen": [c.digests.get(WEIGHTS_FILE) for c in chosen],
        }
    )


def _measure_best_single(
    recipe: Recipe, saved: Sequence[Checkpoint], measuring: Measuring
) -> Measured:
    """Returns the best single checkpoint, measured again only where its score isn't comparable."""
    settings = _list_settings(recipe)
    known: list[Checkpoint] = []
    others: list[Checkpoint] = []
    for checkpoint in saved:
        is_known = list_score_settings(checkpoint.recipe) == settings
        (known if is_known else others).append(checkpoint)
    singles = [_known_score(recipe, checkpoint) for checkpoint in choose_best(known, 1)]
    for checkpoint in choose_best(others, 1):
        step, path = checkpoint.state.step, checkpoint.weights_file
        say(f"measuring step {step:,} again: training measured it with other settings")
        validation = measuring.measure(
            read_weights(path), origin=path, base_digest=checkpoint.base_digest
        )
        singles.append(Measured.of(Candidate("best", (checkpoint,)), validation))
    return max(singles, key=lambda one: one.score)


def _known_score(recipe: Recipe, checkpoint: Checkpoint) -> Measured:
    """Returns a checkpoint with the score that training gave it."""
    assert checkpoint.score is not None
    metric = recipe.training.validation.metric
    # A loss ranks checkpoints by its negative.
    value = -checkpoint.score if metric == "loss" else checkpoint.score
    return Measured(Candidate("best", (checkpoint,)), checkpoint.score, {metric: value})


def _list_settings(recipe: Recipe) -> dict[str, Any]:
    return list_score_settings(recipe.model_dump(mode="json", exclude_none=True))
