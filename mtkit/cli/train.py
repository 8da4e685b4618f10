"""`mtkit train`: trains on the data and writes checkpoints."""

import os
from typing import Annotated

import typer

from mtkit.cli.options import (
    GpusOption,
    ProcessesOption,
    RunOptions,
    choose_hardware,
    declare_option,
    with_run,
)


@with_run
def train(
    *,
    run: RunOptions,
    gpus: GpusOption = None,
    processes: ProcessesOption = None,
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes",
            metavar="N",
            min=1,
            help="Train on N machines together: run the same command on each, with --rdzv.",
        ),
    ] = 1,
    rdzv: Annotated[
        str,
        declare_option(
            "--rdzv",
            "HOST:PORT",
            "Rendezvous: host name of one of the machines, and a free port on it.",
        ),
    ] = "",
    max_restarts: Annotated[
        int,
        typer.Option(
            "--max-restarts",
            metavar="N",
            min=0,
            help="If a process fails, restart from the last checkpoint, at most N times.",
        ),
    ] = 0,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print parameters, batches, memory and time without training.",
        ),
    ] = False,
) -> None:
    """Train the model, or resume where training stopped."""
    hardware = choose_hardware(
        gpus, processes, num_nodes=nodes, rendezvous=rdzv, max_restarts=max_restarts
    )
    loaded, run_folder = run.open()
    # Torch reads it once. Its warnings are C++ stack traces, and mtkit reports these itself.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from mtkit.pipeline.train import dry_run as rehearse
    from mtkit.pipeline.train import train as start_training

    if dry_run:
        rehearse(loaded, run_folder, hardware=hardware)
        return
    options = run.repeat()
    code = start_training(loaded, run_folder, hardware=hardware, options=options)
    if code:
        raise typer.Exit(code)
