"""One update: micro-batches accumulated, processes agreed, gradients summed, weights changed."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.console import warn
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Indices
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.training.distributed import Processes
from mtkit.training.learner import Learner
from mtkit.training.memory import is_out_of_memory
from mtkit.training.objective import Objective

_SHARE_SLACK = 1.15
_CPU_AUTO_TOKENS = 8_192
"""On a processor a larger pass is no faster: its tensors leave the cache."""


class Votes(NamedTuple):
    """What a process has to tell the others at an update; any one's vote decides.

    Attributes:
        stop: It was asked to stop.
        checkpoint: Its clock says that a checkpoint is due.
    """

    stop: bool = False
    checkpoint: bool = False


class Outcome(NamedTuple):
    """What an update came to, the same in every process.

    Attributes:
        loss: Sum over its target tokens, in nats.
        negative_log_likelihood: Likewise.
        num_target_tokens: Real ones, `</s>` counted.
        num_tokens: Real tokens of both sides.
        num_slots: Those, and the padding.
        gradient_norm: Euclidean norm of the gradient of the mean loss, before clipping.
        is_applied: Whether the weights have changed; not where loss or gradient is no number.
        micro_batch_tokens: What fits in memory, as far as is known.
        votes: What any process told.
    """

    loss: float
    negative_log_likelihood: float
    num_target_tokens: int
    num_tokens: int
    num_slots: int
    gradient_norm: float
    is_applied: bool
    micro_batch_tokens: int
    votes: Votes


class Updater:
    """Makes updates.

    Args:
        recipe: The run's recipe.
        objective: What is minimised.
        learner: What learns.
        processes: Who takes part.
        sharing: How many processes an update would be shared by; those that take part, where none
            is given.
    """

    def __init__(
        self,
        recipe: Recipe,
        objective: Objective,
        learner: Learner,
        processes: Processes,
        *,
        sharing: int | None = None,
    ) -> None:
        self._recipe = recipe
        self._objective = objective
        self._learner = learner
        self._processes = processes
        self._sharing = processes.count if sharing is None else sharing

    def fit_micro_batch(self) -> int:
        """Returns the size of micro-batch, in tokens, whose largest fits in every process's memory.

        The largest that may come is tried, forward and backward, and the size halved until it fits.
        The weights stay as they are.

        Raises:
            MtkitError: Not even one sentence fits.
        """
        limit = self._wanted_micro_batch()
        while self._processes.any(not self._fits(limit)):
            if limit <= self._recipe.data.cleaning.max_tokens:
                raise MtkitError(
                    f"out of memory with one sentence of {limit:,} tokens a side",
                    "lower data.cleaning.max_tokens and prepare again, or take a smaller [model]",
                )
            limit = max(limit // 2, self._recipe.data.cleaning.max_tokens)
            if self._processes.is_first:
                warn(
                    f"out of memory in the largest micro-batch: trying {limit:,} tokens "
                    "(training.micro_batch_tokens); updates stay as they are, in more passes"
                )
        return limit

    def update(
        self,
        step: int,
        examples: Indices,
        epoch: int,
        *,
        rate: float,
        micro_batch_tokens: int,
        votes: Votes,
        upcoming: tuple[Indices, int] | None = None,
    ) -> Outcome:
        """Changes the weights by the gradient of the mean loss per target token of an update.

        Every process tries its micro-batches by itself; then all tell each other how that went.
        Where one ran out of memory, all do the update again in smaller micro-batches. Nothing
        inside a backward pass waits for another process, so that an error there can't part them.

        Args:
            step: The update, counted from 1.
            examples: The update's examples.
            epoch: The epoch they are seen in.
            rate: Learning rate.
            micro_batch_tokens: Bound of one pass.
            votes: What this process has to tell.
            upcoming: Examples and epoch of the update after this one, to be made ready while a GPU
                is still at work.

        Raises:
            MtkitError: Out of memory, though every micro-batch is one sentence.
        """
        limit = micro_batch_tokens
        num_target_tokens = self._objective.count_tokens(examples, epoch)
        while True:
            parts = self._objective.split_update(
                examples, self._processes.count, micro_batch_tokens=limit
            )
            sums, flat = self._try(step, parts[self._processes.rank], epoch, num_target_tokens)
            if upcoming is not None and sums is not None:
                self._prepare(*upcoming, limit)
            told = torch.zeros(5, dtype=torch.float64, device=self._processes.device)
            if sums is not None:
                told[:2] = sums
            told[2:] += torch.tensor([sums is None, *votes], dtype=told.dtype, device=told.device)
            loss, nll, num_failed, *counts = self._processes.sum(told).tolist()
            if not num_failed:
                break
            limit = self._split(step, parts, int(num_failed), limit)
        self._processes.sum_gradients(self._learner.model, flat)
        norm = self._apply(rate, loss)
        micro_batches = [micro_batch for part in parts for micro_batch in part]
        return Outcome(
            loss=loss,
            negative_log_likelihood=nll,
            num_target_tokens=num_target_tokens,
            num_tokens=sum(micro_batch.num_tokens for micro_batch in micro_batches),
            num_slots=sum(micro_batch.num_slots for micro_batch in micro_batches),
            gradient_norm=norm,
            is_applied=math.isfinite(norm) and math.isfinite(loss),
            micro_batch_tokens=limit,
            votes=Votes(*(count > 0 for count in counts)),
        )

    def _try(
        self, step: int, micro_batches: Sequence[MicroBatch], epoch: int, num_target_tokens: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """Leaves the gradients of this process's part of an update.

        Returns:
            Sums of loss and negative log-likelihood, and the gradients laid flat for the others;
            None for both where memory ran out.
        """
        seed_step(self._recipe.seed, step, self._processes.rank)
        sums = torch.zeros(2, dtype=torch.float64, device=self._processes.device)
        self._learner.forget_gradients()
        self._learner.working.refresh()
        try:
            for number, micro_batch in enumerate(micro_batches, start=1):
                self._processes.progress.beat(
                    f"step {step:,}, micro-batch {number} of {len(micro_batches)}"
                )
                measured = self._objective.measure(micro_batch, epoch)
                # Divided before: the sum over micro-batches and processes is then the mean per
                # token.
                (measured.loss / num_target_tokens).backward()  # type: ignore[no-untyped-call]
                self._learner.working.accumulate_gradients()
                sums += torch.stack((measured.loss.detach(), measured.negative_log_likelihood))
            return sums, self._processes.flatten_gradients(self._learner.model)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Not in the handler: the error would keep the frames, and their tensors, alive.
        self._release_memory()
        return None, None

    def _prepare(self, examples: Indices, epoch: int, limit: int) -> None:
        """Gets the next update's micro-batches to a GPU that is busy with this one."""
        if self._processes.device.type != "cuda":
            return
        parts = self._objective.split_update(
            examples, self._processes.count, micro_batch_tokens=limit
        )
        try:
            self._objective.prepare(parts[self._processes.rank], epoch)
        except (RuntimeError, MemoryError) as error:
            # Without room now they are made when they are needed.
            if not is_out_of_memory(error):
                raise

    def _split(
        self, step: int, parts: Sequence[Sequence[MicroBatch]], num_failed: int, limit: int
    ) -> int:
        """Returns a smaller bound than that of the micro-batches that were too large."""
        micro_batches = [micro_batch for part in parts for micro_batch in part]
        largest = max(micro_batch.num_padded_tokens for micro_batch in micro_batches)
        # No micro-batch can be smaller than the longest sentence, whatever the bound.
        if largest > limit or all(len(one.sentences) == 1 for one in micro_batches):
            raise MtkitError(
                f"step {step:,}: out of memory, in micro-batches as small as its longest sentence",
                "see what else takes the memory; or lower data.cleaning.max_tokens and prepare "
                "again, or take a smaller [model]",
            )
        limit = largest // 2
        if self._processes.is_first:
            where = f" on {num_failed} of {self._processes.count} processes"
            warn(
                f"step {step:,}: out of memory{where if self._processes.count > 1 else ''}: doing "
                f"it again in micro-batches of {limit:,} tokens, and going on with those"
            )
        return limit

    def _apply(self, rate: float, loss: float) -> float:
        """Changes the weights unless a number is missing; returns the gradient's norm."""
        weights = [weight for weight in self._learner.model.parameters() if weight.grad is not None]
        norm = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
        # All processes hold the same sums, to the bit, and so come to the same answer.
        length = float(norm.item())
        if math.isfinite(length) and math.isfinite(loss):
            clipping = self._recipe.training.clipping
            if clipping is not None:
                nn.utils.clip_grads_with_norm_(weights, clipping.max_norm, norm)
            self._learner.update(rate)
        return length

    def _wanted_micro_batch(self) -> int:
        """Returns the recipe's bound, or all that a process has of an update where that is less."""
        training, max_tokens = self._recipe.training, self._recipe.data.cleaning.max_tokens
        bound = self._largest_share()
        if training.micro_batch_tokens != "auto":
            bound = min(bound, training.micro_batch_tokens)
        elif self._processes.device.type == "cpu":
            bound = min(bound, _CPU_AUTO_TOKENS)
        return max(bound, max_tokens)

    def _fits(self, limit: int) -> bool:
        """Returns whether this process can pass the largest micro-batch forward and backward."""
        self._processes.progress.beat("trying the largest micro-batch")
        size = max(min(limit, self._largest_share()), self._recipe.data.cleaning.max_tokens)
        seed_step(self._recipe.seed, 0, self._processes.rank)
        self._learner.working.refresh()
        try:
            self._objective.measure_largest(size).loss.backward()  # type: ignore[no-untyped-call]
            self._learner.working.accumulate_gradients()
            self._processes.flatten_gradients(self._learner.model)
            fits = True
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            fits = False
        self._release_memory()
        return fits

    def _largest_share(self) -> int:
        """Returns what a process has of an update at most, in tokens a side."""
        return int(self._recipe.training.batch_tokens * _SHARE_SLACK / self._sharing)

    def _release_memory(self) -> None:
        self._learner.forget_gradients()
        if self._processes.device.type == "cuda":
            torch.cuda.empty_cache()


class Meter:
    """Loss and speed since the last log line."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets what was measured."""
        self._sums = [0.0, 0.0]
        self._num_target_tokens = 0
        self._num_seen_tokens = 0
        self._num_tokens = 0
        self._num_slots = 0
        self._gradient_norm = math.nan
        self._started_at = time.monotonic()

    def leave_out(self, seconds: float) -> None:
        """Takes time that no update was made in out of the speed."""
        self._started_at += seconds

    def add(self, outcome: Outcome) -> None:
        """Takes an update in; of one that was left out, its tokens alone."""
        self._num_seen_tokens += outcome.num_target_tokens
        self._num_tokens += outcome.num_tokens
        self._num_slots += outcome.num_slots
        if outcome.is_applied:
            self._sums[0] += outcome.loss
            self._sums[1] += outcome.negative_log_likelihood
            self._num_target_tokens += outcome.num_target_tokens
            self._gradient_norm = outcome.gradient_norm

    def measure(self) -> dict[str, float]:
        """Returns means since the last log line, for the log; no numbers without an update."""
        count = self._num_target_tokens
        loss, nll = (total / count if count else math.nan for total in self._sums)
        elapsed_seconds = time.monotonic() - self._started_at
        return {
            "loss": loss,
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "gradient_norm": self._gradient_norm,
            "target_tokens_per_second": self._num_seen_tokens / elapsed_seconds,
            "padding": 1.0 - self._num_tokens / max(1, self._num_slots),
        }


def seed_step(seed: int, step: int, rank: int) -> None:
    """Leaves torch's generators in a state that depends on nothing but these three."""
    drawn = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))
