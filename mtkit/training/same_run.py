"""Whether checkpoints are of the run that a recipe describes."""

from collections.abc import Mapping
from typing import Any

from mtkit.errors import MtkitError
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import list_differences, relative_to_root, select
from mtkit.training.checkpoint import Checkpoint

Tables = Mapping[str, Any]
"""A recipe as plain tables, as checkpoints hold it."""
_SCHEDULES_TO_AN_END = ("cosine", "linear")
_KEEP_BOTH = "use another folder with --workspace FOLDER, or remove the checkpoints to start over"


def check_same_run(tables: Tables, data_digest: str | None, saved: list[Checkpoint]) -> None:
    """Checks that a recipe can continue the run that some checkpoints are of.

    Its data have no digest before they are prepared.

    Raises:
        MtkitError: They are of another run; it says which keys differ.
    """
    if not saved:
        return
    last = saved[-1]
    wanted = _select_fixed(tables)
    for checkpoint in saved:
        _check_form(checkpoint, wanted)
    differing = list_differences(wanted, _select_fixed(last.recipe))
    if data_digest is not None and data_digest != last.data_digest:
        differing.append("the training or development data have changed")
    if differing:
        raise MtkitError(
            f"{last.folder.parent} contains checkpoints of another run: " + "; ".join(differing),
            _KEEP_BOTH,
        )


def check_unchanged(tables: Tables, saved: list[Checkpoint]) -> None:
    """Checks that a finished run ended with this recipe's settings, and no later than it says.

    Raises:
        MtkitError: It ended with other settings; it says which keys differ.
    """
    changes = list_changes(tables, saved)
    step, max_steps = saved[-1].state.step, tables["training"]["max_steps"]
    if step > max_steps and not changes:
        changes = [f"it is at step {step:,}, past training.max_steps = {max_steps:,}"]
    if changes:
        raise MtkitError(
            f"{saved[-1].folder.parent} contains a finished run with other settings: "
            + "; ".join(changes),
            _KEEP_BOTH,
        )


def list_changes(tables: Tables, saved: list[Checkpoint]) -> list[str]:
    """Returns a phrase for each setting of training that differs from the last checkpoint's.

    Settings of how often to log, check and save aren't among them.
    """
    if not saved:
        return []
    tuned = Invalidates.UPDATES
    if tables["training"]["schedule"]["kind"] in _SCHEDULES_TO_AN_END:
        tuned |= Invalidates.SCHEDULE_END
    wanted = select(tables, tuned)
    found = select(saved[-1].recipe, tuned)
    if tables["training"]["precision"] == "auto":
        wanted["training"]["precision"] = found["training"]["precision"]
    return list_differences(wanted, found)


def _check_form(checkpoint: Checkpoint, wanted: Tables) -> None:
    """Checks that a checkpoint's recipe is a valid one, with the sections that are expected."""
    try:
        is_whole = wanted.keys() <= _select_fixed(checkpoint.recipe).keys()
    except (AttributeError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise MtkitError(
            f"{checkpoint.folder}: damaged: it doesn't contain a valid recipe",
            "remove this checkpoint",
        )


def _select_fixed(tables: Tables) -> dict[str, Any]:
    """Returns the values that a run can't change under way, wherever a project's folder lies."""
    chosen = select(tables, Invalidates.RUN)
    fixed: dict[str, Any] = relative_to_root(chosen, tables["data"]["data_root"])
    return fixed
