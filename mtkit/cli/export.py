"""`mtkit export`: a model for another program, checked against PyTorch's translations."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import RecipeOption, SetOption, WorkspaceOption, declare_option, open_run
from mtkit.errors import MtkitError, suggest

_FORMATS = ("ctranslate2", "transformers", "argos")


def export(
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    model: Annotated[
        Path | None,
        declare_option(
            "--model", "FOLDER", "Model folder to export; no recipe or workspace needed."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        declare_option(
            "--output",
            "FOLDER",
            "Output folder; for argos a file. Default: in the workspace export/, transformers/, or "
            "a file with the languages' names.",
            "-o",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Whose form: ctranslate2 (faster, without PyTorch), transformers (as the Hugging "
            "Face hub takes it) or argos (a package for Argos Translate and LibreTranslate).",
        ),
    ] = "ctranslate2",
    quantization: Annotated[
        str | None,
        typer.Option(
            "--quantization",
            "-q",
            metavar="TYPE",
            help="Data type of the weight matrices: float32, float16, bfloat16, int16 or int8; "
            "or a pair such as int8_float16, whose second part is the type of everything else. "
            "Default: float32, and int8 for argos.",
        ),
    ] = None,
    lines: Annotated[
        Path | None,
        declare_option(
            "--lines",
            "FILE",
            "Sentences to compare on. Default: the run's development set, or the "
            "embedded English-German corpus.",
        ),
    ] = None,
) -> None:
    """Export a model for CTranslate2, or for transformers and the Hugging Face hub.

    Both programs translate the same sentences; if the outputs differ, nothing is exported.
    """
    if form not in _FORMATS:
        raise MtkitError(
            f"unknown format '{form}'{suggest(form, _FORMATS)}",
            "expected one of " + ", ".join(_FORMATS),
        )
    if form == "transformers" and quantization is not None:
        raise typer.BadParameter("--quantization can't be combined with --format transformers")
    chosen = quantization or ("int8" if form == "argos" else "float32")
    if model is not None and (recipe or workspace is not None):
        raise typer.BadParameter("--model can't be combined with --recipe or --workspace")
    if model is not None and output is None:
        raise typer.BadParameter("--model needs --output")
    if model is None:
        opened, place = open_run(recipe, workspace, overrides)
    from mtkit.pipeline import export as door

    if model is not None and output is not None:
        changes = overrides or []
        if form == "transformers":
            door.export_model_for_transformers(model, output, changes, lines_file=lines)
        elif form == "argos":
            door.export_model_for_argos(
                model, output, changes, quantization=chosen, lines_file=lines
            )
        else:
            door.export_model(model, output, changes, quantization=chosen, lines_file=lines)
    elif form == "transformers":
        door.export_for_transformers(opened, place, output=output, lines_file=lines)
    elif form == "argos":
        door.export_for_argos(opened, place, output=output, quantization=chosen, lines_file=lines)
    else:
        door.export(opened, place, output=output, quantization=chosen, lines_file=lines)
