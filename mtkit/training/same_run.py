"""Whether checkpoints are of the run that a recipe describes."""

from typing import Any

from mtkit.data.prepared import list_differences, relative_to_root
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import Checkpoint

_FIXED_TRAINING_KEYS = ("batch_tokens", "length_groups")
"""Keys that the order of the data depends on; a run can't change them under way."""
_TUNED_TRAINING_KEYS = (
    "label_smoothing", "precision", "optimizer", "schedule", "clipping", "freeze", "moving_average"
)  # fmt: skip
"""Keys that a run may change under way, and whose result is then another."""
_SCHEDULES_TO_AN_END = ("cosine", "linear")
_KEEP_BOTH = "keep both with --workspace FOLDER, or remove the checkpoints to start over"


def check_same_run(recipe: Recipe, data_digest: str | None, saved: list[Checkpoint]) -> None:
    """Checks that a recipe can continue the run that some checkpoints are of.

    Args:
        recipe: What is to be trained or averaged.
        data_digest: Digest of its data; None before they are prepared.
        saved: The checkpoints there are.

    Raises:
        MtkitError: They are of another run; it says which keys differ.
    """
    if not saved:
        return
    last = saved[-1]
    for checkpoint in saved:
        _check_form(checkpoint)
    tables = recipe.model_dump(mode="json", exclude_none=True)
    differing = list_differences(_fixed_part(tables), _fixed_part(last.recipe))
    if data_digest is not None and data_digest != last.data_digest:
        differing.append("the training or development data have changed")
    if differing:
        raise MtkitError(
            f"{last.folder.parent} holds checkpoints of another run: " + "; ".join(differing),
            _KEEP_BOTH,
        )


def check_unchanged(recipe: Recipe, saved: list[Checkpoint]) -> None:
    """Checks that a finished run ended with this recipe's settings, and no later than it says.

    Raises:
        MtkitError: It ended with other settings; it says which keys differ.
    """
    changes = list_changes(recipe, saved)
    step, max_steps = saved[-1].state.step, recipe.training.max_steps
    if step > max_steps and not changes:
        changes = [f"it is at step {step:,}, past training.max_steps = {max_steps:,}"]
    if changes:
        raise MtkitError(
            f"{saved[-1].folder.parent} holds a finished run with other settings: "
            + "; ".join(changes),
            _KEEP_BOTH,
        )


def list_changes(recipe: Recipe, saved: list[Checkpoint]) -> list[str]:
    """Returns a phrase for each setting of training that differs from the last checkpoint's.

    Settings of how often to log, check and save aren't among them.
    """
    if not saved:
        return []
    wanted = recipe.model_dump(mode="json", exclude_none=True)["training"]
    found = saved[-1].recipe["training"]
    if wanted["precision"] == "auto":
        wanted["precision"] = found["precision"]
    # The rate of some schedules depends on where they end.
    end = ("max_steps",) if recipe.training.schedule.kind in _SCHEDULES_TO_AN_END else ()
    keys = (*_TUNED_TRAINING_KEYS, *end)
    return list_differences(
        {key: wanted.get(key) for key in keys}, {key: found.get(key) for key in keys}, "training."
    )


def _check_form(checkpoint: Checkpoint) -> None:
    """Checks that what a checkpoint says of its recipe has a recipe's form.

    Raises:
        MtkitError: It hasn't.
    """
    try:
        _fixed_part(checkpoint.recipe)
    except (AttributeError, KeyError, TypeError) as error:
        raise MtkitError(
            f"{checkpoint.folder}: damaged: the recipe in it isn't one", "remove that checkpoint"
        ) from error


def _fixed_part(tables: dict[str, Any]) -> dict[str, Any]:
    training = tables["training"]
    return {
        **{key: tables[key] for key in ("seed", "model")},
        # The data's digest covers what lies where a pretrained tokenizer is.
        "tokenizer": {
            key: value for key, value in tables["tokenizer"].items() if key != "pretrained"
        },
        "training": {
            **{key: training[key] for key in _FIXED_TRAINING_KEYS},
            # Not where it lies: a project's folder may move.
            "start_from": relative_to_root(training.get("start_from"), tables["data"]["data_root"]),
            # Scores by different measures don't rank checkpoints.
            "validation": {"metric": training["validation"]["metric"]},
        },
    }
