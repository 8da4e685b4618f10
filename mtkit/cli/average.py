"""`mtkit average`: averages several checkpoints into one model."""

from typing import Annotated

import typer

from mtkit.cli.options import DeviceOption, RunOptions, declare_count, with_run


@with_run
def average(
    *,
    run: RunOptions,
    last: Annotated[
        int | None,
        declare_count(
            "--last", "Average the N most recent checkpoints. Default: set by the recipe."
        ),
    ] = None,
    best: Annotated[
        int | None,
        declare_count("--best", "Average the N checkpoints with the best development score."),
    ] = None,
    spaced: Annotated[
        int | None,
        declare_count(
            "--spaced", "Average N checkpoints evenly spaced, by step, among those kept."
        ),
    ] = None,
    select: Annotated[
        bool,
        typer.Option(
            "--select",
            help="Try the last checkpoint, the best one, and averages of different numbers of "
            "checkpoints; keep what scores best on the development set.",
        ),
    ] = False,
    device: DeviceOption = "auto",
) -> None:
    """Average several checkpoints into the run's model.

    Without an option, the recipe's training.averaging says which ones and how many. The average is
    scored on the development set; if a single checkpoint scores better, training.averaging.if_worse
    says what happens. With --last, --best or --spaced there is only a warning.
    """
    options = {"--last": last, "--best": best, "--spaced": spaced, "--select": select or None}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"{given[0]} and {given[1]} can't be combined")
    opened, place = run.open()
    if given and opened.training.averaging.if_worse == "replace":
        # An explicit choice becomes the model, even if it scores worse.
        changes = [*run.overrides, "training.averaging.if_worse=warn"]
        opened, place = run.open(changes)
    from mtkit.training.averaging.average import average as average_checkpoints
    from mtkit.training.averaging.average import select_checkpoint as select_model

    if select:
        select_model(opened, place, device=device)
        return
    averaging = opened.training.averaging
    choose, num_checkpoints = averaging.choose, averaging.num_checkpoints
    if last is not None:
        choose, num_checkpoints = "last", last
    elif best is not None:
        choose, num_checkpoints = "best", best
    elif spaced is not None:
        choose, num_checkpoints = "spaced", spaced
    average_checkpoints(
        opened,
        place,
        choose=choose,
        num_checkpoints=num_checkpoints,
        device=device,
        options=run.repeat(),
    )
