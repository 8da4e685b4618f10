"""`mtkit attend`: shows what each head of a translator attends to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import DeviceOption, ModelOption, RunOptions, declare_option, with_run
from mtkit.input_forms import LineForm
from mtkit.standard_streams import check_stdin, check_stdout

if TYPE_CHECKING:
    from mtkit.inference.attention import HeadFigures


@with_run
def attend(
    *,
    run: RunOptions,
    model: ModelOption = None,
    device: DeviceOption = "auto",
    form: Annotated[
        LineForm,
        typer.Option(
            "--input",
            help="Input format: text, tsv (source, tab, translation) or jsonl. A line without a "
            "translation is translated.",
        ),
    ] = "text",
    page: Annotated[
        Path | None,
        declare_option("--page", "FILE", "Also write an interactive page (.html)."),
    ] = None,
    picture: Annotated[
        Path | None,
        declare_option("--picture", "FILE", "Also draw the first line's heads (.png)."),
    ] = None,
    head: Annotated[
        str,
        typer.Option(
            "--head",
            metavar="KIND[.LAYER[.HEAD]]",
            help="What the picture shows: cross, encoder or decoder, with a layer (the last by "
            "default) and a head.",
        ),
    ] = "cross",
    numbers: Annotated[
        Path | None,
        declare_option("--numbers", "FILE", "Also write all weights (.json or .safetensors)."),
    ] = None,
) -> None:
    """Translate lines from stdin, and print what each attention head does on average.

    A table on a terminal, tab-separated lines into a pipe or a file.
    """
    run.check_model_alone(has_model=model is not None)
    check_stdin("mtkit attend")
    check_stdout("mtkit attend")
    settings = None
    if model is None:
        opened, place = run.open()
        model, settings = place.model, opened.inference
    from mtkit.inference.streams.byte_lines import WarningPrinter
    from mtkit.inference.streams.input_format import InputFormat, read_requests
    from mtkit.pipeline.attend import AttentionFiles, ChosenHead
    from mtkit.pipeline.attend import attend as attend_lines

    files = AttentionFiles(page, picture, ChosenHead.parse(head), numbers)
    files.check()
    with WarningPrinter() as printer:
        windows = read_requests(sys.stdin.buffer, InputFormat(form=form), printer)
        requests = [request for window in windows for request in window]
    heads = attend_lines(
        model,
        requests,
        files=files,
        settings=settings,
        overrides=run.overrides,
        device=device,
    )
    _print(heads)


def _print(heads: list[HeadFigures]) -> None:
    names = ["attention", "layer", "head", "distance", "offset", "entropy", "confidence", "to ends"]
    rows = [
        [
            each.kind,
            str(each.layer),
            str(each.head),
            "" if each.distance is None else f"{each.distance:.2f}",
            "" if each.offset is None else f"{each.offset:+.2f}",
            f"{each.entropy:.2f}",
            f"{each.confidence:.2f}",
            f"{each.to_ends:.2f}",
        ]
        for each in heads
    ]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table()
        for name in names:
            table.add_column(name, justify="left" if name == "attention" else "right")
        for row in rows:
            table.add_row(*row)
        Console(highlight=False).print(table)
    else:
        sys.stdout.write("".join("\t".join(row) + "\n" for row in [names, *rows]))
    sys.stdout.flush()
