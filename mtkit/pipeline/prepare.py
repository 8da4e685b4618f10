"""The front door of `mtkit prepare`; refuses to replace the data of a run's checkpoints."""

from mtkit.console import open_console, report, say
from mtkit.data.preparation.preflight import check_data as look_at_data
from mtkit.data.preparation.report_table import show_longest, show_report
from mtkit.data.prepare import prepare as prepare_data
from mtkit.pipeline.select_text import TorchLanguageModels
from mtkit.processors import count_processors
from mtkit.recipe import Recipe
from mtkit.workspace import Workspace


def prepare(recipe: Recipe, workspace: Workspace, *, num_workers: int | None = None) -> None:
    """Writes tokenizer, tokenised training data and the development set to `workspace.data`.

    The data of an earlier `prepare` are replaced only once everything is done.

    Args:
        recipe: Whose data to prepare.
        workspace: Where they go.
        num_workers: Processes that clean and tokenise; one per available processor if None.

    Raises:
        MtkitError: A corpus that can't be read, has no usable pairs, or is too small for the
            tokenizer; checkpoints of another run, on other data or with another model.
    """
    models = TorchLanguageModels() if recipe.data.cleaning.selection is not None else None
    if not any(workspace.checkpoints.glob("step-*")):
        prepare_data(recipe, workspace, num_workers=num_workers, models=models)
        return
    # Imported here: they load torch, which takes two seconds that a first prepare needn't wait.
    from mtkit.training.checkpoint_folder import CheckpointFolder  # noqa: PLC0415
    from mtkit.training.same_run import check_same_run  # noqa: PLC0415

    saved = CheckpointFolder(workspace.checkpoints).list()
    tables = recipe.model_dump(mode="json", exclude_none=True)
    check_same_run(tables, None, saved)
    prepare_data(
        recipe,
        workspace,
        num_workers=num_workers,
        check=lambda digest: check_same_run(tables, digest, saved),
        models=models,
    )


def check_data(recipe: Recipe, *, num_workers: int | None = None) -> bool:
    """Prints what preparing a recipe's data would find and make; writes nothing.

    Returns:
        Whether `prepare` would find no fault that ends it.
    """
    models = TorchLanguageModels() if recipe.data.cleaning.selection is not None else None
    found = look_at_data(recipe, num_workers=num_workers or count_processors(), models=models)
    if found.report.corpora:
        show_report(found.report, open_console())
        show_longest(found.report, open_console())
    if found.report.epoch is not None:
        say(
            f"the data would take about {found.num_bytes / 1e6:,.0f} MB of disk; tokens and "
            "updates are estimates"
        )
    for fault in found.faults:
        report(fault)
    if not found.faults:
        say("check passed: `mtkit prepare` can run")
    return not found.faults
