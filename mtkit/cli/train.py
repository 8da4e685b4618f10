"""`mtkit train`: data become checkpoints."""

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


def train(
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    gpus: GpusOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Train the model, or go on where training stopped."""
    hardware = choose_hardware(gpus, processes)
    opened, place = open_run(recipe, workspace, overrides)
    from mtkit.pipeline.train import train as start_training

    options = repeat_options(recipe, workspace, overrides)
    code = start_training(opened, place, hardware=hardware, options=options)
    if code:
        raise typer.Exit(code)
