"""`mtkit run`: runs all steps, from corpora to scores."""

import typer

from mtkit.cli.options import GpusOption, ProcessesOption, RunOptions, choose_hardware, with_run


@with_run
def run(
    *,
    run: RunOptions,
    gpus: GpusOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Prepare, train, average, translate and score, skipping what is up to date.

    Scores go to stderr as a table, and tab-separated to stdout if that is a pipe or a file.
    """
    hardware = choose_hardware(gpus, processes)
    loaded, run_folder = run.open()
    from mtkit.pipeline.run import run as run_all

    options = run.repeat()
    code = run_all(loaded, run_folder, hardware=hardware, options=options)
    if code:
        raise typer.Exit(code)
