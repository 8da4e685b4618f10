"""The front door of `mtkit prepare`: data are made, and never swapped under a run's checkpoints."""

from mtkit.data.prepare import prepare as prepare_data
from mtkit.recipe import Recipe
from mtkit.workspace import Workspace


def prepare(recipe: Recipe, workspace: Workspace) -> None:
    """Leaves tokenizer, tokenised training data and the development set in `workspace.data`.

    Nothing of an earlier `prepare` is touched until all of it is done.

    Raises:
        MtkitError: A corpus that can't be read, holds no usable pair, or is too small for the
            tokenizer; checkpoints of another run, on other data or with another model.
    """
    if not any(workspace.checkpoints.glob("step-*")):
        prepare_data(recipe, workspace)
        return
    # Imported here: they load torch, which takes two seconds that a first prepare needn't wait.
    from mtkit.training.checkpoint import CheckpointFolder  # noqa: PLC0415
    from mtkit.training.same_run import check_same_run  # noqa: PLC0415

    saved = CheckpointFolder(workspace.checkpoints).list()
    check_same_run(recipe, None, saved)
    prepare_data(recipe, workspace, check=lambda digest: check_same_run(recipe, digest, saved))
