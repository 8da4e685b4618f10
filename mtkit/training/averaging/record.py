"""The record of an average, in the manifest and on the card: its comparison or selection."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mtkit.recipe import Recipe
from mtkit.training.averaging.candidates import describe_candidates
from mtkit.training.averaging.comparison import MeanComparison, find_basis, is_to_be_compared
from mtkit.training.checkpoint import Checkpoint, list_steps
from mtkit.training.metrics import LABELS
from mtkit.workspace import Workspace

SELECTION = "selection"
"""Where the manifest says what was compared when `select` made the model."""
COMPARISON = "comparison"
"""Where it says what a mean is worth beside the best single checkpoint."""
_COMPARED_FACT = "compared on the development set"


def read_comparison(
    recipe: Recipe,
    workspace: Workspace,
    saved: Sequence[Checkpoint],
    chosen: Sequence[Checkpoint],
) -> MeanComparison | None:
    """Returns the comparison that was made for the present model, if it holds for this mean."""
    if not is_to_be_compared(recipe, chosen):
        return None
    found = workspace.read_manifest().get("model", {}).get(COMPARISON)
    comparison = as_comparison(found)
    if comparison is None or comparison.basis != find_basis(recipe, saved, chosen):
        return None
    return comparison


def as_comparison(found: Any) -> MeanComparison | None:
    """Returns what a manifest says of a comparison; None where it isn't one."""
    try:
        return MeanComparison(**found)
    except TypeError:
        return None


def record_comparison(
    comparison: MeanComparison | None, *, is_mean_kept: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the parts of the manifest and of the model's card on a comparison."""
    if comparison is None:
        return {}, {}
    outcome = "no checkpoint does better alone than the mean"
    if comparison.is_mean_worse:
        kept = "which was kept all the same" if is_mean_kept else "and was kept in its place"
        outcome = f"a checkpoint does better alone than the mean, {kept}"
    return {COMPARISON: asdict(comparison)}, {
        _COMPARED_FACT: _as_list(outcome, comparison.list_lines())
    }


def read_selected(workspace: Workspace, saved: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Returns what `select` made the model of; nothing where it chose from other checkpoints."""
    record = workspace.read_manifest().get("model", {})
    selection = record.get(SELECTION)
    if selection is None or selection["checkpoints"] != list_steps(saved):
        return []
    return [checkpoint for checkpoint in saved if checkpoint.state.step in record["steps"]]


def record_selection(selection: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the parts of the manifest and of the model's card on a selection."""
    outcome = f"the best by {LABELS.get(selection['metric'], selection['metric'])} was kept"
    lines = describe_candidates(selection["candidates"])
    return {SELECTION: selection}, {_COMPARED_FACT: _as_list(outcome, lines)}


def _as_list(title: str, lines: Sequence[str]) -> str:
    """Returns a fact of a model's card that is a list."""
    return "\n".join([title, *(f"  - {line}" for line in lines)])
