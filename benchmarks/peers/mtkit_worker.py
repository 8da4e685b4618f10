"""Trains mtkit for the benchmark: the trainer's own updates, one after the other."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import torch
from measured import Window, read_task

from mtkit.data.batches.ragged import Indices
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.network import EncoderDecoder
from mtkit.network.device import limit_kernel_cache, limit_threads
from mtkit.recipe import Recipe, load_recipe
from mtkit.training.distributed import join_processes, leave_processes
from mtkit.training.learner import Learner
from mtkit.training.objective import TranslationObjective
from mtkit.training.plan import build_model
from mtkit.training.precision import resolve_precision
from mtkit.training.update import Outcome, Updater, Votes
from mtkit.workspace import Workspace

_RATE = 1e-4


class Training:
    """A training from the start, as `mtkit train` sets it up.

    Attributes:
        processes: Those that torchrun started, or this one alone.
        recipe: The run's recipe.
        precision: What its updates are computed in.
        data: What it learns from.
        objective: What is minimised; it holds the model.
        updater: What makes updates.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self.processes = join_processes(task["device"])
        device = self.processes.device
        limit_threads()
        limit_kernel_cache()
        self.recipe: Recipe = load_recipe(task["recipe"], task["overrides"])
        self.data: PreparedData = open_prepared(self.recipe, Workspace(Path(task["workspace"])))
        torch.manual_seed(self.recipe.seed)
        model = build_model(self.recipe, self.data).to(device).train()
        self.precision = resolve_precision(self.recipe, self.processes)
        learner = Learner.of(model, self.recipe, precision=self.precision)
        working = cast(EncoderDecoder, learner.working.model)
        self.objective = TranslationObjective(working, self.data, self.recipe, device)
        self.updater = Updater(self.recipe, self.objective, learner, self.processes)
        self._micro_batch_tokens = self.updater.fit_micro_batch()
        self._step = 0
        self._plan = self._plan_epochs()
        self._upcoming = next(self._plan)

    def draw(self) -> tuple[int, Indices]:
        """Returns the epoch and the sentences of the next update."""
        drawn, self._upcoming = self._upcoming, next(self._plan)
        return drawn

    def update(self, epoch: int, examples: Indices) -> Outcome:
        """Makes one update, the next being known, as in training."""
        self._step += 1
        upcoming_epoch, upcoming = self._upcoming
        return self.updater.update(
            self._step,
            examples,
            epoch,
            rate=_RATE,
            micro_batch_tokens=self._micro_batch_tokens,
            votes=Votes(),
            upcoming=(upcoming, upcoming_epoch),
        )

    def _plan_epochs(self) -> Iterator[tuple[int, Indices]]:
        for epoch in count():
            for examples in self.objective.plan_epoch(epoch):
                yield epoch, examples


def main() -> None:
    task = read_task()
    training = Training(task)
    window = Window(task, training.precision, "mtkit")
    try:
        while True:
            epoch, examples = training.draw()
            outcome = training.update(epoch, examples)
            source, target = training.data.train.lengths(examples).values()
            window.end_update(torch.from_numpy(source), torch.from_numpy(target), outcome.num_slots)
    finally:
        leave_processes(training.processes, has_ended=True)


if __name__ == "__main__":
    main()
