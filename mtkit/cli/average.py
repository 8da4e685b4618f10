"""`mtkit average`: several checkpoints become one model."""

from typing import Annotated

import typer

from mtkit.cli.options import DeviceOption, RecipeOption, SetOption, WorkspaceOption, open_run


def average(
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            metavar="N",
            min=1,
            show_default=False,
            help="Take the N most recent checkpoints; the recipe says how many if not given.",
        ),
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(
            "--best",
            metavar="N",
            min=1,
            show_default=False,
            help="Take the N checkpoints with the best development score.",
        ),
    ] = None,
    spaced: Annotated[
        int | None,
        typer.Option(
            "--spaced",
            metavar="N",
            min=1,
            show_default=False,
            help="Take N checkpoints spread evenly, by step, over all that were kept.",
        ),
    ] = None,
    select: Annotated[
        bool,
        typer.Option(
            "--select",
            help="Take what does best on the development set: the last checkpoint, the best, or "
            "the mean of the last, of the best or of spaced ones.",
        ),
    ] = False,
    device: DeviceOption = "auto",
) -> None:
    """Make the mean of several checkpoints the run's model.

    Which ones, and how many, the recipe says (training.averaging) unless an option does.
    """
    options = {"--last": last, "--best": best, "--spaced": spaced, "--select": select or None}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"{given[0]} and {given[1]} exclude each other")
    if device != "auto" and not select:
        raise typer.BadParameter("--device goes with --select, which runs the model")
    opened, place = open_run(recipe, workspace, overrides)
    from mtkit.training.average import average as average_checkpoints
    from mtkit.training.average import select as select_model

    if select:
        select_model(opened, place, device=device)
    elif last is not None:
        average_checkpoints(opened, place, choose="last", num_checkpoints=last)
    elif best is not None:
        average_checkpoints(opened, place, choose="best", num_checkpoints=best)
    elif spaced is not None:
        average_checkpoints(opened, place, choose="spaced", num_checkpoints=spaced)
    else:
        averaging = opened.training.averaging
        average_checkpoints(
            opened, place, choose=averaging.choose, num_checkpoints=averaging.num_checkpoints
        )
