"""`mtkit run`: the whole road, from corpora to scores."""

import typer

from mtkit.cli.options import (
    GpusOption,
    ProcessesOption,
    RecipeOption,
    SetOption,
    WorkspaceOption,
    choose_hardware,
    open_run,
    repeat_options,
)


def run(
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    gpus: GpusOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Prepare, train, average, translate and score, skipping what is up to date."""
    hardware = choose_hardware(gpus, processes)
    loaded, run_folder = open_run(recipe, workspace, overrides)
    from mtkit.pipeline.run import run as run_all

    options = repeat_options(recipe, workspace, overrides)
    code = run_all(loaded, run_folder, hardware=hardware, options=options)
    if code:
        raise typer.Exit(code)
