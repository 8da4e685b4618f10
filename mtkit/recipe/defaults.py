"""Defaults that depend on what is learned."""

from typing import Any

_METRICS = {
    "causal-lm": "loss",
    "masked-lm": "loss",
    "denoising": "loss",
    "classification": "accuracy",
}
"""Default of `training.validation.metric` by objective, where it isn't translation's."""


def choose_defaults(tables: dict[str, Any]) -> dict[str, Any]:
    """Returns a recipe's tables with two keys by the objective, where the recipe leaves them out.

    Text is predicted without label smoothing, and scored by its loss or by its labels.
    """
    objective, training = tables.get("objective"), tables.get("training", {})
    if not isinstance(objective, str) or objective not in _METRICS:
        return tables
    if not isinstance(training, dict):
        return tables
    validation = training.get("validation", {})
    if isinstance(validation, dict):
        validation = {"metric": _METRICS[objective], **validation}
    return {**tables, "training": {"label_smoothing": 0.0, **training, "validation": validation}}
