"""`mtkit translate`: text on stdin becomes text on stdout, line by line."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import (
    DeviceOption,
    RecipeOption,
    SetOption,
    WorkspaceOption,
    declare_option,
    open_run,
)
from mtkit.standard_streams import check_stdin, check_stdout


class Engine(StrEnum):
    """What runs the network."""

    AUTO = "auto"
    TORCH = "torch"
    CTRANSLATE2 = "ctranslate2"


class Form(StrEnum):
    """What a line of input is."""

    TEXT = "text"
    TSV = "tsv"
    JSONL = "jsonl"


class Errors(StrEnum):
    """What to do with invalid UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


def translate(
    context: typer.Context,
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    model: Annotated[
        list[str] | None,
        declare_option(
            "--model",
            "FOLDER",
            "Model folder, or a run's checkpoint; repeat it for an ensemble of model folders. Or "
            "the address of `mtkit serve`, http://... No recipe or workspace needed.",
        ),
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            show_default=False,
            help="Engine of the network (inference.engine); auto takes the quickest that is there, "
            "ctranslate2 needs `mtkit export`.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    form: Annotated[
        Form | None,
        typer.Option(
            "--input",
            show_default=False,
            help="Input format: text (source only), tsv (source, tab, target) or jsonl (objects "
            "with source and target). The target is a prefix to continue, or is scored.",
        ),
    ] = None,
    errors: Annotated[
        Errors,
        typer.Option("--errors", help="On invalid UTF-8: stop (strict), or replace it."),
    ] = Errors.STRICT,
    score_only: Annotated[
        bool,
        typer.Option(
            "--score-only",
            help="Score given translations instead of translating; implies --input tsv.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a JSON object per line: text, scores, tokens, n-best."),
    ] = False,
) -> None:
    """Translate stdin to stdout: one line out for each line in, in order."""
    if context.args:
        file = shlex.quote(context.args[0])
        raise typer.BadParameter(f"text is read from stdin: mtkit translate < {file}")
    changes = [*(overrides or []), *([f"inference.engine={engine}"] if engine else [])]
    if model and (recipe or workspace is not None):
        raise typer.BadParameter("--model can't be combined with --recipe or --workspace")
    if score_only and form is Form.TEXT:
        raise typer.BadParameter("--score-only needs --input tsv or jsonl")
    check_stdin("mtkit translate")
    check_stdout("mtkit translate")
    if not model:
        opened, place = open_run(recipe, workspace, changes)
    from mtkit.pipeline.classify import open_classifier
    from mtkit.pipeline.remote import is_address, open_remote

    folders = [Path(each) for each in model] if model else [place.model]
    is_remote = bool(model) and any(map(is_address, model or ()))
    classifier = (
        None if is_remote else open_classifier(folders, device=device, score_only=score_only)
    )
    if classifier is not None:
        from mtkit.inference.streams.input_format import InputFormat
        from mtkit.inference.streams.label_stream import label_stream

        by_default = Form.TSV if classifier.has_pairs else Form.TEXT
        label_stream(
            classifier,
            sys.stdin.buffer,
            sys.stdout.buffer,
            input_format=InputFormat(
                form=(form or by_default).value, replaces_errors=errors is Errors.REPLACE
            ),
            as_json=as_json,
        )
        return
    from mtkit.inference.streams.input_format import InputFormat
    from mtkit.inference.streams.translate_stream import score_stream, translate_stream
    from mtkit.pipeline.translate import load_models, load_run

    if is_remote:
        translator = open_remote(model or [], changes)
    elif model:
        translator = load_models(folders, changes, device=device)
    else:
        translator = load_run(opened, place, device=device)
    input_format = InputFormat(
        form=(form or (Form.TSV if score_only else Form.TEXT)).value,
        replaces_errors=errors is Errors.REPLACE,
    )
    run = score_stream if score_only else translate_stream
    run(translator, sys.stdin.buffer, sys.stdout.buffer, input_format=input_format, as_json=as_json)
