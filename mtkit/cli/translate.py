"""`mtkit translate`: text on stdin becomes text on stdout, line by line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import DeviceOption, RecipeOption, SetOption, WorkspaceOption, open_run


def translate(
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="FOLDER",
            show_default=False,
            help="Translate with this model folder; no recipe or workspace is needed then.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="PATH",
            show_default=False,
            help="Translate with the weights of this checkpoint of the run.",
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam",
            metavar="N",
            min=1,
            show_default=False,
            help="Hypotheses kept per sentence, 1 for greedy search: inference.beam_size.",
        ),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Translate stdin to stdout: one line out for each line in, in order."""
    changes = [*(overrides or []), *([f"inference.beam_size={beam}"] if beam is not None else [])]
    if model is not None and (recipe or workspace is not None or checkpoint is not None):
        raise typer.BadParameter("--model excludes --recipe, --workspace and --checkpoint")
    if model is None:
        opened, place = open_run(recipe, workspace, changes)
    from mtkit.inference.translate import translate_stream
    from mtkit.pipeline.translate import load_model, load_run

    if model is not None:
        translator = load_model(model, changes, device=device)
    else:
        translator = load_run(opened, place, checkpoint=checkpoint, device=device)
    translate_stream(translator, sys.stdin.buffer, sys.stdout.buffer)
