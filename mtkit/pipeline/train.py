"""The front door of `mtkit train`: training in this process, or in several."""

import os
from collections.abc import Sequence

from mtkit.data.prepared import open_prepared
from mtkit.pipeline.hardware import Hardware
from mtkit.recipe import Recipe
from mtkit.training.distributed import check_gpus, launch, telling_launcher
from mtkit.training.train import is_trained
from mtkit.training.train import train as train_here
from mtkit.workspace import Workspace

STOPPED = 130
"""Exit code of a training that was asked to stop; what a shell reports for Ctrl-C."""


def train(
    recipe: Recipe, workspace: Workspace, *, hardware: Hardware, options: Sequence[str]
) -> int:
    """Trains to the end, or as far as an interruption lets it.

    Args:
        recipe: What to train.
        workspace: Where its data are and its checkpoints go.
        hardware: What to train on.
        options: What makes a command come to the same recipe and workspace, for worker processes.

    Returns:
        An exit code: 0 at the end, `STOPPED` before it.

    Raises:
        MtkitError: No data yet, too few GPUs, or a fault in training, a worker's too.
    """
    # torchrun, which takes any code but 0 for a crash, sets this in its workers.
    if "TORCHELASTIC_RUN_ID" in os.environ:
        with telling_launcher():
            train_here(recipe, workspace, device=hardware.device)
        return 0
    check_gpus(hardware.num_gpus)
    if hardware.num_processes == 1:
        is_finished = train_here(recipe, workspace, device=hardware.device)
        return 0 if is_finished else STOPPED
    # Opened here so that a fault is told once, not by every worker.
    open_prepared(recipe, workspace)
    on_gpus = hardware.device == "cuda"
    count = ["--gpus" if on_gpus else "--processes", str(hardware.num_processes)]
    launch(["train", *options, *count], num_processes=hardware.num_processes, needs_gpus=on_gpus)
    return 0 if is_trained(recipe, workspace) else STOPPED
