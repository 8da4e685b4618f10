"""Processes that train together in any precision; each leaves what it ended with in a file.

They are forked from one that has loaded all they need: loading takes longer than training.
"""

import os
import pickle
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.distributed import TCPStore

from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.updates import TrainingBatches, Update
from mtkit.model.build import build
from mtkit.recipe import load_recipe
from mtkit.training.build_learner import build_objective
from mtkit.training.checkpoint import TrainingState
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.distributed import ProcessGroup, join_processes, leave_processes
from mtkit.training.learner import Learner
from mtkit.training.loop import Trainer, restore_everywhere
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.progress import ProgressView
from mtkit.training.training_run import TrainingRun
from mtkit.training.update import Objective
from mtkit.training.validation import ValidationResult
from mtkit.workspace import Workspace

from .. import warm

_PATIENCE_SECONDS = 240
_PROGRAM = "import sys; from tests.equivalence.{} import main; main(*sys.argv[1:])"


@dataclass(frozen=True)
class Job:
    """A training.

    Attributes:
        recipe_file: What to train.
        overrides: Changes to it.
        workspace: Where its data are.
        dtype: Torch's name of the precision of weights and arithmetic.
        folder: Where the outcome goes; training resumes from its `checkpoints/`, if there are any.
    """

    recipe_file: str
    overrides: tuple[str, ...]
    workspace: Path
    dtype: str
    folder: Path


def train_together(job: Job, num_processes: int) -> list[dict[str, torch.Tensor]]:
    """Returns what every rank ended with: `weight.NAME`, `gradient.NAME`, `seen.UPDATE`.

    The last are the sentences that the rank took into one update.
    """
    (job.folder / "job.pickle").write_bytes(pickle.dumps(job))
    return run_together("one_rank", job.folder, num_processes)


def run_together(module: str, folder: Path, num_processes: int) -> list[dict[str, torch.Tensor]]:
    """Returns what every rank left in `rankN.safetensors`, once all have run a module's `main`."""
    # Held here, at a port that the system gives: one that was free a moment ago may not be.
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    command = [warm.python(), "-c", _PROGRAM.format(module), str(folder)]
    ranks = [
        subprocess.Popen([*command, *map(str, (rank, num_processes, store.port))])
        for rank in range(num_processes)
    ]
    try:
        assert [process.wait(_PATIENCE_SECONDS) for process in ranks] == [0] * num_processes
    finally:
        for process in ranks:
            process.kill()
    return [load_file(folder / f"rank{rank}.safetensors") for rank in range(num_processes)]


def join(rank: str, num_processes: str, port: str) -> ProcessGroup:
    """Returns this process among those of `run_together`."""
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
    os.environ |= {"WORLD_SIZE": num_processes, "MASTER_PORT": port}
    # As under torchrun, whose agent holds the store.
    os.environ |= {"MASTER_ADDR": "localhost", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    torch.set_num_threads(1)
    return join_processes("cpu")


def main(folder: str, *place: str) -> None:
    """Trains as a rank of a job that lies in a folder."""
    job: Job = pickle.loads(Path(folder, "job.pickle").read_bytes())
    processes = join(*place)
    recipe = load_recipe(job.recipe_file, job.overrides)
    run = TrainingRun.open(recipe, Workspace(job.workspace))
    torch.manual_seed(recipe.seed)
    model = build(run.model_config).to(getattr(torch, job.dtype))
    learner = Learner.of(model, recipe.training, processes=processes)
    objective = _WithoutDevelopmentSet(build_objective(run, learner, processes))
    seen = _record(objective.batches)
    checkpoints = CheckpointFolder(job.folder / "checkpoints")
    restored = restore_everywhere(checkpoints, learner, processes)
    state = TrainingState() if restored is None else restored.state
    trainer = Trainer(
        recipe=recipe,
        objective=objective,
        learner=learner,
        processes=processes,
        checkpoints=checkpoints,
        metrics=_Log(
            job.folder / "metrics.jsonl",
            picture=job.folder / "no.png",
            title="",
            resumed_at=state.step,
        )
        if processes.is_first
        else None,
        view=ProgressView(1, is_shown=False),
        data_digest="",
    )
    if not state.micro_batch_tokens:
        state = replace(state, micro_batch_tokens=trainer.updater.fit_micro_batch())
    trainer.run(state)
    tensors = {f"weight.{name}": weight.detach() for name, weight in model.named_parameters()}
    tensors |= {
        f"gradient.{name}": weight.grad.clone() for name, weight in model.named_parameters()
    }
    for update, parts in enumerate(seen, start=state.step + 1):
        none = torch.empty(0, dtype=torch.long)
        tensors[f"seen.{update}"] = torch.cat([none, *map(torch.from_numpy, parts)])
    save_file(tensors, job.folder / f"rank{processes.rank}.safetensors")
    leave_processes(processes, has_ended=True)


def _record(batches: TrainingBatches) -> list[list[Indices]]:
    """Lets batches note the examples of each micro-batch of each update; returns the notes."""
    seen: list[list[Indices]] = []
    update, gather = batches.update, batches.gather

    def update_and_note(*place: int) -> Update:
        seen.append([])
        return update(*place)

    def gather_and_note(micro_batch: MicroBatch, epoch: int) -> object:
        seen[-1].append(micro_batch.sentences.astype("int64"))
        return gather(micro_batch, epoch)

    batches.update, batches.gather = update_and_note, gather_and_note
    return seen


class _WithoutDevelopmentSet:
    """An objective that measures nothing."""

    def __init__(self, objective: Objective) -> None:
        self.batches, self.learn = objective.batches, objective.learn

    def validate(self) -> ValidationResult:
        names = ("loss", "nll", "perplexity", "bleu", "chrf")
        return ValidationResult(0.0, dict.fromkeys(names, 0.0), [])


class _Log(MetricsLog):
    """The log without its picture, which takes longer to draw than fifty updates."""

    def draw(self) -> None:
        pass
