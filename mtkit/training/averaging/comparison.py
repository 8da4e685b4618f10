"""The worth of a mean on the development set beside that of the best single checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from mtkit.training.averaging.candidates import (
    Candidate,
    Measured,
    as_tables,
    describe_candidates,
    write_metric,
)
from mtkit.training.averaging.measuring import Measuring
from mtkit.training.checkpoint import Checkpoint, choose_best
from mtkit.training.metrics import LABELS
from mtkit.training.validation import list_score_settings


@dataclass(frozen=True)
class MeanComparison:
    """A mean beside the best single checkpoint, as JSON can express it.

    Attributes:
        metric: `training.validation.metric`, which decides.
        mean: The mean, as `as_tables` has a candidate.
        single: The checkpoint, likewise; of a score that training measured, that alone.
        is_mean_worse: Whether the checkpoint's score is better.
        basis: Digest of the checkpoints and settings that it depends on.
    """

    metric: str
    mean: dict[str, Any]
    single: dict[str, Any]
    is_mean_worse: bool
    basis: str

    @property
    def single_step(self) -> int:
        """The single checkpoint's step."""
        return int(self.single["steps"][0])

    def describe(self) -> str:
        """Returns both scores: `development BLEU 40.38, the checkpoint of step 4,400 alone ...`."""
        mean, single = self.mean["metrics"][self.metric], self.single["metrics"][self.metric]
        texts = [write_metric(self.metric, value) for value in (mean, single)]
        if texts[0] == texts[1] and mean != single:
            texts = [write_metric(self.metric, value, more_decimals=3) for value in (mean, single)]
        return (
            f"development {LABELS.get(self.metric, self.metric)} {texts[0]}, "
            f"the checkpoint of step {self.single_step:,} alone {texts[1]}"
        )

    def list_lines(self) -> list[str]:
        """Returns a line on each of the two."""
        return describe_candidates([self.mean, self.single])


def find_basis(recipe: Recipe, saved: Sequence[Checkpoint], chosen: Sequence[Checkpoint]) -> str:
    """Returns the digest of what a comparison of the mean of those chosen with all depends on."""
    return digest(
        {
            "settings": _list_settings(recipe),
            "saved": [[c.state.step, c.score] for c in saved if c.score is not None],
            "chosen": [c.digests.get(WEIGHTS_FILE) for c in chosen],
        }
    )


def is_to_be_compared(recipe: Recipe, chosen: Sequence[Checkpoint]) -> bool:
    """Returns whether the recipe asks what the mean of these checkpoints is worth."""
    return recipe.training.averaging.if_worse != "ignore" and len(chosen) > 1


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
        f"measuring the mean on the development set: {len(data.dev):,} sentences, beam "
        f"{recipe.training.validation.beam_size} (--set training.averaging.if_worse=ignore leaves "
        "this out)"
    )
    try:
        measuring = Measuring(recipe, data, device)
        origin = mean.checkpoints[0].weights_file
        measured = Measured.of(mean, measuring.measure(weights, origin=origin))
        single = _measure_best_single(recipe, saved, measuring)
    except MtkitError as error:
        if recipe.training.averaging.if_worse == "replace":
            raise
        warn(f"the mean was not compared with single checkpoints: {error.message}")
        return None
    tables = as_tables([measured, single])
    return MeanComparison(
        metric=recipe.training.validation.metric,
        mean=tables[0],
        single=tables[1],
        is_mean_worse=single.score > measured.score,
        basis=find_basis(recipe, saved, mean.checkpoints),
    )


def _measure_best_single(
    recipe: Recipe, saved: Sequence[Checkpoint], measuring: Measuring
) -> Measured:
    """Returns the best single checkpoint, measured again only where its score isn't comparable."""
    settings = _list_settings(recipe)
    has_same = {c.state.step: list_score_settings(c.recipe) == settings for c in saved}
    known = choose_best([c for c in saved if has_same[c.state.step]], 1)
    others = choose_best([c for c in saved if not has_same[c.state.step]], 1)
    singles = [_known_score(recipe, checkpoint) for checkpoint in known]
    for checkpoint in others:
        step, path = checkpoint.state.step, checkpoint.weights_file
        say(f"measuring step {step:,} again: training measured it with other settings")
        validation = measuring.measure(read_weights(path), origin=path)
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
