"""`mtkit align`: aligns the words of given translations."""

import sys
from typing import Annotated

import typer

from mtkit.cli.options import ModelOption, RunOptions, with_run
from mtkit.input_forms import PairForm
from mtkit.standard_streams import check_stdin, check_stdout


@with_run
def align(
    *,
    run: RunOptions,
    model: ModelOption = None,
    form: Annotated[
        PairForm,
        typer.Option("--input", help="Input format: tsv (source, tab, translation) or jsonl."),
    ] = "tsv",
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Align each pair alone, independent of the others."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a JSON object per line: links, and the positions of words."
        ),
    ] = False,
) -> None:
    """Align the words of translations from stdin, all of them together: a line `0-0 1-2` for each.

    Uses the word aligner in the model folder (data.word_aligner), and learns from the pairs.
    """
    run.check_model_alone(has_model=model is not None)
    if model is not None and run.overrides:
        raise typer.BadParameter("--set changes a recipe, and with --model none is read")
    check_stdin("mtkit align")
    check_stdout("mtkit align")
    if model is None:
        model = run.open()[1].model
    from mtkit.inference.learned_aligner import warn_too_long
    from mtkit.inference.streams.byte_lines import WarningPrinter
    from mtkit.inference.streams.input_format import InputFormat, as_json_line, read_requests
    from mtkit.pipeline.align import align as align_pairs

    reserved = {"alignment"} if as_json else ()
    input_format = InputFormat(form=form, needs_target=True, reserved_keys=reserved)
    with WarningPrinter() as printer:
        windows = read_requests(sys.stdin.buffer, input_format, printer)
        requests = [request for window in windows for request in window]
        aligned = align_pairs(model, requests, together=not apart)
        for number, found in enumerate(aligned, 1):
            printer.print(warn_too_long(found, number))
    for request, found in zip(requests, aligned, strict=True):
        pair = request.text, request.prefix
        if as_json:
            line = as_json_line(request, {"alignment": found.as_json(*pair)})
        else:
            line = found.as_pharaoh(*pair)
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
