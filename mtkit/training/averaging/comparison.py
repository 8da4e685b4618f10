"""The worth of a mean on the development set beside that of the best single checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mtkit.console import say, warn
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.weights import read_weights
from mtkit.training.averaging.candidates import Candidate, Measured
from mtkit.training.averaging.measuring import Measuring, describe_development
from mtkit.training.averaging.record import MeanComparison
from mtkit.training.checkpoint import Checkpoint, choose_best
from mtkit.training.training_run import TrainingRun
from mtkit.training.validation import list_score_settings


def digest_basis(
    tables: Mapping[str, Any], saved: Sequence[Checkpoint], chosen: Sequence[Checkpoint]
) -> str:
    """Returns the digest of what a comparison of a mean with the run's checkpoints depends on.

    Args:
        tables: The run's recipe as plain tables.
        saved: All checkpoints.
        chosen: Those of the mean.
    """
    return digest(
        {
            "settings": list_score_settings(tables),
            "saved": [[c.state.step, c.score] for c in saved if c.score is not None],
            "chosen": [c.digests.get(WEIGHTS_FILE) for c in chosen],
        }
    )


def compare(
    run: TrainingRun,
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
        The comparison; None, with a warning, where a worse mean would only be warned of and it
        can't be measured.

    Raises:
        MtkitError: The recipe has a worse mean replaced, and it can't be measured.
    """
    training = run.recipe.training
    say(
        f"measuring the average on the development set: {describe_development(run)} "
        "(--set training.averaging.if_worse=ignore skips this)"
    )
    try:
        measuring = Measuring(run, device)
        measured = measuring.measure(mean, weights)
        single = _measure_best_single(run, saved, measuring)
    except MtkitError as error:
        if training.averaging.if_worse == "replace":
            raise
        warn(f"the average was not compared with single checkpoints: {error.message}")
        return None
    return MeanComparison(
        metric=training.validation.metric,
        mean=measured.record(),
        single=single.record(),
        is_mean_worse=single.score > measured.score,
        basis=digest_basis(run.tables, saved, mean.checkpoints),
    )


def _measure_best_single(
    run: TrainingRun, saved: Sequence[Checkpoint], measuring: Measuring
) -> Measured:
    """Returns the best single checkpoint, measured again only where its score isn't comparable."""
    settings, metric = list_score_settings(run.tables), run.recipe.training.validation.metric
    known = [c for c in saved if list_score_settings(c.recipe) == settings]
    others = [c for c in saved if c not in known]
    singles = [Measured.by_training(best, metric) for best in choose_best(known, 1)]
    for best in choose_best(others, 1):
        say(f"measuring step {best.state.step:,} again: training measured it with other settings")
        singles.append(
            measuring.measure(Candidate("best", (best,)), read_weights(best.weights_file))
        )
    return max(singles, key=lambda one: one.score)
