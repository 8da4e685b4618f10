"""The training loop: log lines, checkpoints, skipped updates, stops."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import FrameType
from typing import Any

from torch import nn

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.network.device import peak_memory_bytes
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import Checkpoint, TrainingState, describe_recipe, is_finished
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner
from mtkit.training.loss_scale import LossScale
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.progress import ProgressView
from mtkit.training.schedule import learning_rate
from mtkit.training.update import Objective, RankRequests, Updater, UpdateResult
from mtkit.units import plural


class Meter:
    """Loss and speed since the last log line."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Resets all sums and the clock."""
        self._sums = [0.0, 0.0, 0.0]
        self._num_target_tokens = 0
        self._num_seen_tokens = 0
        self._num_tokens = 0
        self._num_slots = 0
        self._gradient_norm = math.nan
        self._started_at = time.monotonic()

    def leave_out(self, seconds: float) -> None:
        """Excludes time without updates from the speed."""
        self._started_at += seconds

    def add(self, outcome: UpdateResult) -> None:
        """Adds an update; of a skipped one, only its tokens."""
        self._num_seen_tokens += outcome.num_target_tokens
        self._num_tokens += outcome.num_tokens
        self._num_slots += outcome.num_slots
        if outcome.is_applied:
            self._sums[0] += outcome.loss
            self._sums[1] += outcome.negative_log_likelihood
            self._sums[2] += outcome.divergence
            self._num_target_tokens += outcome.num_target_tokens
            self._gradient_norm = outcome.gradient_norm

    def means(self) -> dict[str, float]:
        """Returns means since the last log line; NaN without an update."""
        count = self._num_target_tokens
        loss, nll, divergence = (total / count if count else math.nan for total in self._sums)
        elapsed_seconds = time.monotonic() - self._started_at
        return {
            "loss": loss,
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            **({"divergence": divergence} if divergence > 0.0 else {}),
            "gradient_norm": self._gradient_norm,
            "target_tokens_per_second": self._num_seen_tokens / elapsed_seconds,
            "padding": 1.0 - self._num_tokens / max(1, self._num_slots),
        }


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_request() -> Iterator[Callable[[], bool]]:
    """Yields a check that Ctrl-C or SIGTERM has come; a second Ctrl-C ends at once.

    Training stops at the end of an update.
    """
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        # A batch system may send SIGTERM to each process and again through the launcher.
        if number == signal.SIGINT:
            signal.signal(number, previous[signal.SIGINT])

    previous = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Trainer:
    """Everything that a run of updates needs; `run` does them.

    Attributes:
        data_digest: Digest of the training data, saved in each checkpoint.
        metrics: Where updates are logged; None except on the first rank.
    """

    recipe: Recipe
    objective: Objective[Any, Any]
    learner: Learner[nn.Module]
    processes: ProcessGroup
    checkpoints: CheckpointFolder
    view: ProgressView
    data_digest: str
    metrics: MetricsLog | None = None

    @cached_property
    def updater(self) -> Updater:
        """The updater."""
        return Updater(
            self.recipe.training,
            self.objective,
            self.learner,
            self.processes,
            seed=self.recipe.seed,
            max_tokens_key=self.recipe.data.max_tokens_key,
        )

    def run(self, state: TrainingState, *, unscored: Checkpoint | None = None) -> TrainingState:
        """Trains from `state` to the end or a requested stop; returns the last state.

        The learner was restored to that state. `unscored` is its checkpoint if that still needs a
        score: training ended before its validation.
        """
        with stop_request() as stop_is_requested:
            if unscored is not None:
                if self.metrics is not None:
                    # Training ended after that line, before the score was in the checkpoint.
                    self.metrics.drop("dev", state.step)
                state = self._validate(state, unscored, began_at=time.monotonic())
                if self.processes.any(stop_is_requested()):
                    return state
            return self._make_updates(state, stop_is_requested)

    def _make_updates(
        self, state: TrainingState, stop_is_requested: Callable[[], bool]
    ) -> TrainingState:
        """Trains from a state whose checkpoint, if any, needs no score."""
        if is_finished(self.recipe.training, state):
            return state
        self.learner.working.model.train()
        meter = Meter()
        started_at = time.monotonic() - state.elapsed_seconds
        while not is_finished(self.recipe.training, state):
            rate = self._rate(state)
            outcome, state = self._update(state, rate, stop_is_requested())
            state = replace(state, elapsed_seconds=time.monotonic() - started_at)
            meter.add(outcome)
            self._report_update(outcome, state)
            if state.num_skipped_in_a_row >= self.recipe.training.recovery.max_skipped:
                state = self._roll_back(state)
                meter.restart()
                continue
            if state.step % self.recipe.training.log_every == 0:
                self._log(state, rate, meter)
            is_due = self._is_checkpoint_due(state, outcome.requests)
            if outcome.requests.stop and state.step < self.recipe.training.max_steps:
                # A validation that is due happens on resumption: time may be short.
                self._stop(state, is_regular=is_due)
                break
            if is_due:
                began_at = time.monotonic()
                saved = self._save(state, is_regular=True)
                state = self._validate(state, saved, began_at=began_at)
                seconds = time.monotonic() - began_at
                meter.leave_out(seconds)
                self.view.leave_out(seconds)
                if self.processes.any(stop_is_requested()):
                    break
        return state

    def _stop(self, state: TrainingState, *, is_regular: bool) -> None:
        """Saves the state after a requested stop."""
        self._save(state, is_regular=is_regular)
        if self.processes.is_first and not is_regular:
            self.checkpoints.prune(self.recipe.training)
        if self.metrics is not None:
            self.metrics.draw()

    def _rate(self, state: TrainingState) -> float:
        """Returns the learning rate of the next update."""
        training = self.recipe.training
        scheduled = learning_rate(
            training.schedule,
            state.step + 1,
            d_model=self.recipe.model.d_model,
            max_steps=training.max_steps,
        )
        return scheduled * state.rate_factor

    def _update(
        self, state: TrainingState, rate: float, stop_is_requested: bool
    ) -> tuple[UpdateResult, TrainingState]:
        """Makes one update; returns its outcome and the state after it."""
        minutes = self.recipe.training.checkpoint_minutes
        since = state.elapsed_seconds - state.checkpoint_seconds
        # Only the first rank's clock counts: it saves.
        is_due = self.processes.is_first and minutes is not None and since >= 60.0 * minutes
        update = self.objective.batches.update(
            state.epoch, state.position, state.micro_batch_tokens
        )
        requests = RankRequests(stop=stop_is_requested, checkpoint=is_due)
        scale = None
        if self.learner.working.precision == "fp16":
            scale = LossScale.resume(state.loss_scale, state.num_with_loss_scale)
        outcome = self.updater.make(
            state.step + 1, update, rate=rate, requests=requests, loss_scale=scale
        )
        scale = outcome.loss_scale
        skipped = not outcome.is_applied
        epoch, position = update.following
        return outcome, replace(
            state,
            step=state.step + 1,
            epoch=epoch,
            position=position,
            target_tokens=state.target_tokens + outcome.num_target_tokens,
            micro_batch_tokens=outcome.micro_batch_tokens,
            num_skipped=state.num_skipped + skipped,
            num_skipped_in_a_row=state.num_skipped_in_a_row + 1 if skipped else 0,
            loss_scale=0.0 if scale is None else scale.factor,
            num_with_loss_scale=0 if scale is None else scale.num_updates,
        )

    def _report_update(self, outcome: UpdateResult, state: TrainingState) -> None:
        """Shows an update or a skipped one; logs its digest if configured."""
        self.view.show_step(state.step)
        if not outcome.is_applied:
            what = "loss" if not math.isfinite(outcome.loss) else "gradient"
            self._report(state.step, f"update skipped: {what} is NaN or infinite")
        if self.recipe.training.log_digests and self.metrics is not None:
            digest = self.learner.digest()
            self.metrics.append("digest", {"step": state.step, "digest": digest})

    def _roll_back(self, state: TrainingState) -> TrainingState:
        """Restores the learner to the last checkpoint; returns the state to resume from."""
        recovery = self.recipe.training.recovery
        count = state.num_skipped_in_a_row
        reason = f"{plural(count, 'update')} skipped in a row"
        if state.num_rollbacks >= recovery.max_returns:
            times = f" after {plural(state.num_rollbacks, 'rollback')}"
            raise _diverged(state, reason + (times if state.num_rollbacks else ""))
        checkpoint = restore_everywhere(self.checkpoints, self.learner, self.processes)
        if checkpoint is None:
            raise _diverged(state, f"{reason} before the first checkpoint")
        factor = state.rate_factor * recovery.rate_factor
        if self.metrics is not None:
            self.metrics.rewind(checkpoint.state.step)
        self._report(
            checkpoint.state.step,
            f"step {state.step:,}: {reason}: rolling back to the checkpoint of step "
            f"{checkpoint.state.step:,}, with {factor:g} times the learning rate from now on",
        )
        self.learner.working.model.train()
        return replace(
            checkpoint.state,
            elapsed_seconds=state.elapsed_seconds,
            num_skipped=state.num_skipped,
            num_skipped_in_a_row=0,
            num_rollbacks=state.num_rollbacks + 1,
            rate_factor=factor,
            micro_batch_tokens=state.micro_batch_tokens,
        )

    def _report(self, step: int, text: str) -> None:
        """Warns of an event and logs it."""
        if self.processes.is_first:
            warn(text if text.startswith("step") else f"step {step:,}: {text}")
        if self.metrics is not None:
            self.metrics.append("event", {"step": step, "text": text})

    def _log(self, state: TrainingState, rate: float, meter: Meter) -> None:
        metrics = {
            "step": state.step,
            "epoch": state.epoch,
            **meter.means(),
            "learning_rate": rate,
            "target_tokens": state.target_tokens,
            "memory_bytes": peak_memory_bytes(self.processes.device),
            "skipped": state.num_skipped,
            "elapsed_seconds": state.elapsed_seconds,
        }
        if state.loss_scale:
            metrics["loss_scale"] = state.loss_scale
        if self.metrics is not None:
            self.metrics.append("train", metrics)
        self.view.show_update(metrics)
        meter.restart()

    def _is_checkpoint_due(self, state: TrainingState, requests: RankRequests) -> bool:
        training = self.recipe.training
        by_step = state.step % training.checkpoint_every == 0
        is_due = requests.checkpoint if training.checkpoint_minutes is not None else by_step
        return is_due or state.step >= training.max_steps

    def _save(self, state: TrainingState, *, is_regular: bool) -> Checkpoint | None:
        """Saves the state before it is validated: hours of work must not depend on a validation."""
        if not all(bool(weight.isfinite().all()) for weight in self.learner.model.parameters()):
            raise _diverged(state, "the weights contain NaN or infinity")
        saved = None
        self.processes.progress.beat(f"saving step {state.step:,}")
        if self.learner.shards is not None:
            self.learner.shards.gather_moments(self.learner.states)
        if self.processes.is_first:
            saved = self.checkpoints.save(
                self.learner,
                replace(state, checkpoint_seconds=state.elapsed_seconds) if is_regular else state,
                is_regular=is_regular,
                recipe=describe_recipe(self.recipe),
                data_digest=self.data_digest,
            )
        self.processes.barrier()
        return saved

    def _validate(
        self, state: TrainingState, saved: Checkpoint | None, *, began_at: float
    ) -> TrainingState:
        """Validates a saved checkpoint; returns the state with its score and the elapsed time."""
        self.processes.progress.beat(f"validating step {state.step:,}")
        with self.learner.as_translated():
            validation = self.objective.validate()
        self.learner.working.model.train()
        if not math.isfinite(validation.metrics["loss"]):
            raise MtkitError(
                f"step {state.step:,}: validation failed: the loss on the development set is "
                f"{validation.metrics['loss']}",
                "its checkpoint was saved without a score; remove it, lower the learning rate and "
                "resume from the one before it",
            )
        # Minutes until the next checkpoint count from here: saving and validating may take minutes.
        elapsed_seconds = state.elapsed_seconds + time.monotonic() - began_at
        state = replace(
            state.after_validation(validation.score),
            elapsed_seconds=elapsed_seconds,
            checkpoint_seconds=elapsed_seconds,
        )
        if self.metrics is not None:
            facts = {"step": state.step, "elapsed_seconds": state.elapsed_seconds}
            self.metrics.append("dev", {**facts, **validation.metrics})
            self.metrics.draw()
        # On a tie the later is kept.
        is_best = validation.score == state.best_score
        self.view.show_validation(state.step, validation, is_best=is_best)
        if saved is not None and self.processes.is_first:
            self.checkpoints.record_score(saved, state, validation.score)
            self.checkpoints.prune(self.recipe.training)
        self.processes.barrier()
        return state


def restore_everywhere(
    checkpoints: CheckpointFolder, learner: Learner[nn.Module], processes: ProcessGroup
) -> Checkpoint | None:
    """Restores every rank's learner from the newest intact checkpoint; returns that, if any.

    The first rank reads it and broadcasts it to the others, which may not see its folder.
    """
    found = checkpoints.restore_newest(learner) if processes.is_first else None
    found = processes.broadcast_object(found)
    if found is not None:
        processes.broadcast(learner.tensors())
        if learner.shards is not None:
            learner.shards.scatter_moments(learner.states)
        learner.forget_count()
    return found


def _diverged(state: TrainingState, reason: str) -> MtkitError:
    return MtkitError(
        f"step {state.step:,}: {reason}: training has diverged",
        "lower training.schedule's peak or factor, lengthen its warm-up, or add "
        "training.clipping; then run the same command: it resumes from the last checkpoint, or "
        "starts again where there is none",
    )
