"""`mtkit average`: several checkpoints become one model."""

from typing import Annotated, Literal

import typer

from mtkit.cli.options import RecipeOption, SetOption, WorkspaceOption, open_run


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
) -> None:
    """Make the mean of several checkpoints the run's model."""
    if last is not None and best is not None:
        raise typer.BadParameter("--last and --best exclude each other")
    opened, place = open_run(recipe, workspace, overrides)
    from mtkit.training.average import average as average_checkpoints

    choose: Literal["last", "best"] = opened.training.averaging.choose
    number = opened.training.averaging.num_checkpoints
    if last is not None:
        choose, number = "last", last
    elif best is not None:
        choose, number = "best", best
    average_checkpoints(opened, place, choose=choose, num_checkpoints=number)
