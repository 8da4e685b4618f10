"""`mtkit export`: writes a model for another program, checked against PyTorch's translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import RunOptions, declare_folder, declare_option, with_run
from mtkit.errors import MtkitError, suggest

if TYPE_CHECKING:
    from mtkit.pipeline.export import ExportForm

_FORMATS: "tuple[ExportForm, ...]" = ("ctranslate2", "transformers", "argos")


@with_run
def export(
    *,
    run: RunOptions,
    model: Annotated[
        Path | None,
        declare_folder("--model", "Model folder to export; no recipe or workspace needed."),
    ] = None,
    output: Annotated[
        Path | None,
        declare_folder(
            "--output",
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
            help="Output format: ctranslate2, transformers (for the "
            "Hugging Face hub) or argos (a package for Argos Translate and LibreTranslate).",
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
    chosen = _find_form(form)
    if form == "transformers" and quantization is not None:
        raise typer.BadParameter("--quantization can't be combined with --format transformers")
    if form == "argos" and isinstance(output, str):
        raise typer.BadParameter("--format argos writes a file on disk: name one with --output")
    run.check_model_alone(has_model=model is not None)
    if model is not None and output is None:
        raise typer.BadParameter("--model needs --output")
    opened = run.open() if model is None else None
    from mtkit.pipeline import export as exporting

    if opened is not None:
        exported = exporting.open_run(*opened, lines_file=lines)
    else:
        assert model is not None
        exported = exporting.open_folder(model, run.overrides, lines_file=lines)
    if output is None:
        exporting.export(exported, None, form=chosen, quantization=quantization or "")
        return
    from mtkit.stored_folder import working_copy

    with working_copy(output, is_new=True) as folder:
        exporting.export(exported, folder, form=chosen, quantization=quantization or "")


def _find_form(name: str) -> "ExportForm":
    found = next((form for form in _FORMATS if form == name), None)
    if found is None:
        raise MtkitError(
            f"unknown format '{name}'{suggest(name, _FORMATS)}",
            "expected one of " + ", ".join(_FORMATS),
        )
    return found
