"""Defaults that depend on what is learned."""

from collections.abc import Mapping
from typing import Any

_METRICS = {
    "causal-lm": "loss",
    "masked-lm": "loss",
    "denoising": "loss",
    "classification": "accuracy",
}
"""Default of `training.validation.metric` by objective, where it isn't translation's."""
_OF_PARSERS = {
    "tokenizer": {"joint": False},
    "model": {"tied_embeddings": "decoder"},
    "training": {"validation": {"metric": "f1"}},
    # arXiv 1706.03762, section 6.3.
    "inference": {"max_extra_tokens": 300},
    "evaluation": {"metrics": ["parseval"]},
}


def choose_defaults(tables: dict[str, Any]) -> dict[str, Any]:
    """Returns a recipe's tables with keys that depend on what is learned, where it lacks them.

    Text in one language is predicted without label smoothing, and scored by its loss or by its
    labels. A parser's sentences and trees have a vocabulary each; it is scored by F1.
    """
    objective = tables.get("objective")
    if isinstance(objective, str) and objective in _METRICS:
        validation = {"metric": _METRICS[objective]}
        return _fill(tables, {"training": {"label_smoothing": 0.0, "validation": validation}})
    data = tables.get("data")
    if isinstance(data, dict) and _has_trees(data):
        language = data.get("source_language")
        of_data = {} if language is None else {"target_language": language}
        return _fill(tables, {"data": of_data, **_OF_PARSERS})
    return tables


def _has_trees(data: Mapping[str, Any]) -> bool:
    train = data.get("train")
    corpora = train if isinstance(train, list) else []
    return any(isinstance(corpus, dict) and "trees" in corpus for corpus in corpora)


def _fill(tables: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns tables with the defaults that they lack; what should be a table and isn't stays."""
    filled = {**tables}
    for key, default in defaults.items():
        found = filled.setdefault(key, default)
        if isinstance(default, dict) and isinstance(found, dict):
            filled[key] = _fill(found, default)
    return filled
