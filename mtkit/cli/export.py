"""`mtkit export`: a model for CTranslate2, checked against PyTorch's translations."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import RecipeOption, SetOption, WorkspaceOption, declare_option, open_run


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
            "--output", "FOLDER", "Output folder. Default: the workspace's export/.", "-o"
        ),
    ] = None,
    quantization: Annotated[
        str,
        typer.Option(
            "--quantization",
            "-q",
            metavar="TYPE",
            help="Data type of the weight matrices: float32, float16, bfloat16, int16 or int8; "
            "or a pair such as int8_float16, whose second part is the type of everything else.",
        ),
    ] = "float32",
    lines: Annotated[
        Path | None,
        declare_option(
            "--lines",
            "FILE",
            "Sentences to compare both engines on. Default: the run's development set, or the "
            "embedded English-German corpus.",
        ),
    ] = None,
) -> None:
    """Export a model for CTranslate2, which translates faster and needs no PyTorch.

    Both engines translate the same sentences; if the outputs differ, nothing is exported.
    """
    if model is not None and (recipe or workspace is not None):
        raise typer.BadParameter("--model can't be combined with --recipe or --workspace")
    if model is not None and output is None:
        raise typer.BadParameter("--model needs --output")
    if model is None:
        opened, place = open_run(recipe, workspace, overrides)
    from mtkit.pipeline.export import export as export_run
    from mtkit.pipeline.export import export_model

    if model is not None and output is not None:
        export_model(model, output, overrides or [], quantization=quantization, lines_file=lines)
    else:
        export_run(opened, place, output=output, quantization=quantization, lines_file=lines)
