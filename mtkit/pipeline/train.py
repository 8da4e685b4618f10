"""Entry point of `mtkit train`: trains in this process, or in several."""

import shlex
from collections.abc import Sequence

from mtkit.console import say
from mtkit.data.prepared import open_prepared
from mtkit.data.tokenizer_choice import check_start
from mtkit.pipeline.hardware import Hardware
from mtkit.pipeline.local_processes import choose_processes
from mtkit.recipe import Recipe
from mtkit.training.dry_run import rehearse
from mtkit.training.launch import check_gpus, is_worker, launch, run_worker
from mtkit.training.train import is_trained
from mtkit.training.train import train as train_here
from mtkit.training.training_run import TrainingRun
from mtkit.workspace import Workspace

STOPPED = 75
"""Exit code of a training that stopped on request and has saved; sysexits.h's "try again later"."""


def train(
    recipe: Recipe,
    workspace: Workspace,
    *,
    hardware: Hardware,
    options: Sequence[str],
    resume: Sequence[str] = (),
) -> int:
    """Trains to the end, or until interrupted.

    `options` select the same recipe and workspace, for workers. `resume` is the command, with its
    options, that resumes the training: `train` by default.

    Returns:
        An exit code: 0 at the end, `STOPPED` before it.
    """
    if is_worker():
        run_worker(lambda: train_here(recipe, workspace, device=hardware.device, options=options))
    check_gpus(hardware.num_gpus)
    chosen = choose_processes(recipe, workspace, hardware)
    if chosen.needs_launcher:
        # Opened here so that an error is reported once, not by every worker.
        open_prepared(recipe, workspace)
        launch(
            ["train", *options, *chosen.options],
            num_processes=chosen.num_processes,
            needs_gpus=chosen.num_gpus > 0,
            num_nodes=chosen.num_nodes,
            rendezvous=chosen.rendezvous,
            max_restarts=chosen.max_restarts,
        )
        is_finished = is_trained(recipe, workspace)
    else:
        is_finished = train_here(recipe, workspace, device=hardware.device, options=options)
    if is_finished:
        return 0
    command = resume or ["train", *options]
    say("to resume: " + shlex.join(["mtkit", *command, *hardware.options]))
    return STOPPED


def dry_run(recipe: Recipe, workspace: Workspace, *, hardware: Hardware) -> None:
    """Prints parameters, batches, memory and time of a training; starts nothing."""
    if not workspace.has_checkpoints:
        check_start(recipe.training.start_from)
    chosen = choose_processes(recipe, workspace, hardware)
    rehearse(
        TrainingRun.open(recipe, workspace),
        num_processes=chosen.num_processes,
        num_machines=chosen.num_nodes,
        device=chosen.device,
    )
