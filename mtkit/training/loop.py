"""Update by update: what one step is, and what happens at a log line, a checkpoint, a stop."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.data.batches.ragged import Indices
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import CheckpointFolder, TrainingState
from mtkit.training.distributed import Processes
from mtkit.training.metrics import MetricsLog
from mtkit.training.objective import Objective
from mtkit.training.optimizer import set_learning_rate
from mtkit.training.progress import ProgressView
from mtkit.training.schedule import learning_rate
from mtkit.training.validation import Validation

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Place(NamedTuple):
    """How far into the data training is: epochs finished, and updates done of the next."""

    epoch: int
    position: int


@dataclass(frozen=True)
class Trainer:
    """Everything that a run of updates needs; `run` does them.

    Attributes:
        recipe: The run's recipe.
        objective: What is minimised.
        optimizer: What changes the weights.
        processes: Who takes part.
        checkpoints: Where they are saved.
        validate: Measures the model on the development set; every process calls it.
        metrics: Where they are logged; the first process alone has one.
        view: What a person sees.
        data_digest: Digest of the training data, kept with each checkpoint.
    """

    recipe: Recipe
    objective: Objective
    optimizer: torch.optim.Optimizer
    processes: Processes
    checkpoints: CheckpointFolder
    validate: Callable[[], Validation]
    metrics: MetricsLog | None
    view: ProgressView
    data_digest: str

    def run(self, state: TrainingState) -> TrainingState:
        """Trains from `state` to the end, or until asked to stop; returns where it got.

        A state at the end already, saved at a stop, is validated.

        Raises:
            MtkitError: The loss or a weight is no longer a number.
        """
        if is_finished(self.recipe, state):
            state = self._checkpoint(state)
            # Not where the score is a new best, which patience then goes on from.
            if is_finished(self.recipe, state):
                return state
        training = self.recipe.training
        self.objective.model.train()
        meter = _Meter(self.processes.device)
        started_at = time.monotonic() - state.elapsed_seconds
        saved_step = state.step
        with _stop_request() as stop_is_requested:
            for epoch, place, examples in self._updates(state):
                rate = learning_rate(
                    training.schedule,
                    state.step + 1,
                    d_model=self.recipe.model.d_model,
                    max_steps=training.max_steps,
                )
                num_tokens = self._update(state.step + 1, examples, epoch, rate, meter)
                state = replace(
                    state,
                    step=state.step + 1,
                    epoch=place.epoch,
                    position=place.position,
                    target_tokens=state.target_tokens + num_tokens,
                    elapsed_seconds=time.monotonic() - started_at,
                )
                self.view.show_step(state.step)
                if state.step % training.log_every == 0:
                    self._log(state, rate, meter)
                if state.step % training.checkpoint_every == 0 or self._is_last(state):
                    # It waits for the device, whose time counts as the updates'.
                    self._check_weights(state)
                    began_at = time.monotonic()
                    state = self._checkpoint(state)
                    saved_step = state.step
                    meter.leave_out(time.monotonic() - began_at)
                if is_finished(self.recipe, state):
                    break
                if self._all_agree(stop_is_requested()):
                    if saved_step != state.step:
                        self._check_weights(state)
                        self._save(state, score=None)
                    break
        return state

    def _updates(self, state: TrainingState) -> Iterator[tuple[int, "_Place", Indices]]:
        """Yields each update's epoch, the place in the data behind it, and its examples."""
        epoch, position = state.epoch, state.position
        while True:
            updates = self.objective.plan_epoch(epoch)
            for index in range(position, len(updates)):
                is_last = index + 1 == len(updates)
                place = _Place(epoch + 1, 0) if is_last else _Place(epoch, index + 1)
                yield epoch, place, updates[index]
            epoch, position = epoch + 1, 0

    def _update(
        self, step: int, examples: Indices, epoch: int, rate: float, meter: "_Meter"
    ) -> int:
        """Changes the weights by the gradient of the mean loss per token; returns the tokens."""
        _seed_step(self.recipe.seed, step, self.processes.rank)
        num_tokens = self.objective.count_tokens(examples, epoch)
        parts = self.objective.split_update(examples, self.processes.count)
        self.optimizer.zero_grad(set_to_none=True)
        for micro_batch in parts[self.processes.rank]:
            sums = self.objective.measure(micro_batch.sentences, epoch)
            # Divided before: the sum over micro-batches and processes is then the mean per token.
            (sums.loss / num_tokens).backward()  # type: ignore[no-untyped-call]
            meter.add(sums.loss.detach(), sums.negative_log_likelihood)
        self.processes.sum_gradients(self.objective.model)
        if self.recipe.training.clipping is not None:
            nn.utils.clip_grad_norm_(
                self.objective.model.parameters(), self.recipe.training.clipping.max_norm
            )
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        meter.num_target_tokens += num_tokens
        return num_tokens

    def _log(self, state: TrainingState, rate: float, meter: "_Meter") -> None:
        loss, nll = meter.means(self.processes)
        if not math.isfinite(loss):
            raise _diverged(state, f"the loss is {loss}")
        metrics = {
            "step": state.step,
            "epoch": state.epoch,
            "loss": loss,
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "learning_rate": rate,
            "target_tokens": state.target_tokens,
            "target_tokens_per_second": meter.target_tokens_per_second,
            "elapsed_seconds": state.elapsed_seconds,
        }
        if self.metrics is not None:
            self.metrics.append("train", metrics)
        self.view.show_update(metrics)
        meter.restart()

    def _checkpoint(self, state: TrainingState) -> TrainingState:
        """Validates and saves; returns the state with the score taken in."""
        validation = self.validate()
        self.objective.model.train()
        state = state.after_validation(validation.score)
        if self.metrics is not None:
            facts = {"step": state.step, "elapsed_seconds": state.elapsed_seconds}
            self.metrics.append("dev", {**facts, **validation.metrics})
        is_best = state.num_without_best == 0
        self.view.show_validation(state.step, validation, is_best=is_best)
        self._save(state, score=validation.score)
        return state

    def _check_weights(self, state: TrainingState) -> None:
        """Returns if the weights are worth saving: a loss is looked at only when it is logged."""
        if not all(bool(weight.isfinite().all()) for weight in self.objective.model.parameters()):
            raise _diverged(state, "the weights are no numbers")

    def _save(self, state: TrainingState, *, score: float | None) -> None:
        if self.processes.is_first:
            tables = self.recipe.model_dump(mode="json", exclude_none=True)
            self.checkpoints.save(
                self.objective.model,
                self.optimizer,
                state,
                score=score,
                recipe=tables,
                data_digest=self.data_digest,
            )
            training = self.recipe.training
            self.checkpoints.prune(keep_last=training.keep_last, keep_best=training.keep_best)
        if self.metrics is not None:
            self.metrics.draw()
        self.processes.wait()

    def _is_last(self, state: TrainingState) -> bool:
        return state.step >= self.recipe.training.max_steps

    def _all_agree(self, is_requested: bool) -> bool:
        """Returns whether any process was asked to stop; all get the same answer."""
        if self.processes.count == 1:
            return is_requested
        votes = torch.tensor(float(is_requested), device=self.processes.device)
        return bool(self.processes.sum(votes).item() > 0)


def is_finished(recipe: Recipe, state: TrainingState) -> bool:
    """Returns whether training has come to its end, by steps or by patience."""
    patience = recipe.training.early_stopping
    is_out_of_patience = patience is not None and state.num_without_best >= patience.patience
    return state.step >= recipe.training.max_steps or is_out_of_patience


def _diverged(state: TrainingState, reason: str) -> MtkitError:
    return MtkitError(
        f"step {state.step:,}: {reason}: training has diverged",
        "lower training.schedule's peak or factor, lengthen its warm-up, or add "
        "training.clipping; checkpoints before this step are sound",
    )


class _Meter:
    """Loss and speed since the last log line; kept on the device, so that no update waits."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.restart()

    def restart(self) -> None:
        self._sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        self.num_target_tokens = 0
        self._started_at = time.monotonic()

    def leave_out(self, seconds: float) -> None:
        """Takes time that no update was made in out of the speed."""
        self._started_at += seconds

    def add(self, loss: Tensor, negative_log_likelihood: Tensor) -> None:
        self._sums += torch.stack((loss, negative_log_likelihood))

    def means(self, processes: Processes) -> tuple[float, float]:
        """Returns loss and negative log-likelihood per token, over all processes."""
        loss, nll = processes.sum(self._sums).tolist()
        return loss / self.num_target_tokens, nll / self.num_target_tokens

    @property
    def target_tokens_per_second(self) -> float:
        return self.num_target_tokens / (time.monotonic() - self._started_at)


def _seed_step(seed: int, step: int, rank: int) -> None:
    """Leaves torch's generators in a state that depends on nothing but these three."""
    drawn = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))


@contextmanager
def _stop_request() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells if Ctrl-C or SIGTERM has come; a second Ctrl-C ends at once."""
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        # A batch system may send SIGTERM to each process and again through the launcher.
        if number == signal.SIGINT:
            signal.signal(number, previous[signal.SIGINT])

    previous = {number: signal.signal(number, note) for number in _STOP_SIGNALS}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
