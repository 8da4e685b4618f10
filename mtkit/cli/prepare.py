"""`mtkit prepare`: turns corpora into cleaned, tokenized data."""

from typing import Annotated

import typer

from mtkit.cli.options import RunOptions, declare_count, with_run


@with_run
def prepare(
    *,
    run: RunOptions,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Read everything, clean and tokenise a sample, report errors, write nothing.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        declare_count("--workers", "Processes that clean and tokenise. Default: one per CPU core."),
    ] = None,
) -> None:
    """Clean the corpora, train the tokenizer and store the tokens."""
    loaded, run_folder = run.open()
    from mtkit.pipeline.prepare import check_data_and_print
    from mtkit.pipeline.prepare import prepare as prepare_data

    if not check:
        prepare_data(loaded, run_folder, num_workers=workers)
    elif not check_data_and_print(loaded, run_folder, num_workers=workers):
        raise typer.Exit(1)
