"""Trains mtkit for the benchmark: the trainer's own updates, one after the other."""

from pathlib import Path
from typing import Any

import torch
from measured import Window, read_task

from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.updates import Update
from mtkit.network.device import limit_kernel_cache, limit_threads
from mtkit.recipe import Recipe, load_recipe
from mtkit.training.build_learner import build_learner, build_objective
from mtkit.training.distributed import join_processes, leave_processes
from mtkit.training.loss_scale import LossScale
from mtkit.training.training_run import TrainingRun
from mtkit.training.update import RankRequests, Updater, UpdateResult
from mtkit.workspace import Workspace

_RATE = 1e-4


class Training:
    """A training from the start, as `mtkit train` sets it up.

    Attributes:
        processes: Those that torchrun started, or this one alone.
        recipe: The run's recipe.
        data: What it learns from.
        model: What passes go through.
        precision: What its updates are computed in.
        updater: What makes updates.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self.processes = join_processes(task["device"])
        limit_threads()
        limit_kernel_cache()
        self.recipe: Recipe = load_recipe(task["recipe"], task["overrides"])
        run = TrainingRun.open(self.recipe, Workspace(Path(task["workspace"])))
        self.data = run.data
        learner = build_learner(run, self.processes)
        self.model = learner.working.model
        self.precision = learner.working.precision
        objective = build_objective(run, learner, self.processes)
        self.updater = Updater(
            self.recipe.training,
            objective,
            learner,
            self.processes,
            seed=self.recipe.seed,
            max_tokens_key=self.recipe.data.max_tokens_key,
        )
        self._batches = objective.batches
        self._limit = self.updater.fit_micro_batch()
        self._step = 0
        self._scale = LossScale.resume(0.0, 0) if self.precision == "fp16" else None
        self._following = 0, 0

    def draw(self) -> Update[TranslationBatch]:
        """Returns the next update."""
        update = self._batches.update(*self._following, self._limit)
        self._following = update.following
        return update

    def update(self, update: Update[TranslationBatch]) -> UpdateResult:
        """Makes one update, as in training."""
        self._step += 1
        result = self.updater.make(
            self._step, update, rate=_RATE, requests=RankRequests(), loss_scale=self._scale
        )
        self._scale = result.loss_scale
        return result


def main() -> None:
    task = read_task()
    training = Training(task)
    window = Window(task, training.precision, "mtkit")
    try:
        while True:
            update = training.draw()
            outcome = training.update(update)
            source, target = training.data.train.lengths(update.examples).values()
            window.end_update(torch.from_numpy(source), torch.from_numpy(target), outcome.num_slots)
    finally:
        leave_processes(training.processes, has_ended=True)


if __name__ == "__main__":
    main()
