"""One update: micro-batches accumulated, processes agreed, gradients summed, weights changed.

Another objective is a subclass of `StoredBatches` (training/objectives), which reads and collates
examples; a loss of one batch (training/loss.py); a validator (training/validators.py); and a line
of all three in `_choose` (training/build.py). It needs a network and a line in `mtkit.model.build`.

Before the first update, the largest pass that fits in every process's memory is found by a probe.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.console import warn
from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.micro_batches import SHARE_SLACK
from mtkit.data.batches.updates import Batch, TrainingBatches, Update
from mtkit.errors import MtkitError
from mtkit.network.device import is_out_of_memory, release_memory, send
from mtkit.recipe.training import Training
from mtkit.training.distributed import Processes
from mtkit.training.graphs import RecordedPasses
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.validation import ModelValidator, ValidationResult

_PROBE = 0
"""The step of a pass that tries how much memory there is; no such pass is recorded."""
_CPU_AUTO_TOKENS = 8_192
"""On a processor a larger pass is no faster: its tensors leave the cache."""


class Votes(NamedTuple):
    """A process's wishes at an update; any one's decides for all.

    Attributes:
        stop: It was asked to stop.
        checkpoint: Its clock says that a checkpoint is due.
    """

    stop: bool = False
    checkpoint: bool = False


class Outcome(NamedTuple):
    """The result of an update, the same in every process.

    Attributes:
        loss: Sum over its target tokens, in nats; that of examples is in it (`LossSums.join`).
        negative_log_likelihood: Sum over its target tokens, in nats.
        num_target_tokens: Real ones, `</s>` counted.
        num_tokens: Real tokens of both sides.
        num_slots: Those, and the padding.
        gradient_norm: Euclidean norm of the gradient of the mean loss, before clipping.
        is_applied: Whether the weights have changed; not where loss or gradient is NaN or infinity.
        micro_batch_tokens: Limit of a pass that fits in memory, as far as is known.
        votes: Those of any process.
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


Model = TypeVar("Model", bound=nn.Module)


class Objective(Generic[Model, Batch]):
    """Batches, a loss of one batch, and a validator, whatever is learned.

    The loss is a sum over tokens, beside which another may be a sum over examples.

    Args:
        learner: The model that learns.
        batches: What it learns from.
        validator: What measures it on the development set.
        measure: Returns the loss of one batch, summed.
    """

    def __init__(
        self,
        learner: Learner[Model],
        batches: TrainingBatches[Batch],
        validator: ModelValidator[Model],
        measure: Callable[[Model, Batch], LossSums],
    ) -> None:
        self.batches = batches
        self._model = learner.model
        self._working_model = learner.working.model
        self._validator = validator
        self._measure = measure
        self._recorded: RecordedPasses | None = None

    def loss(self, batch: Batch) -> LossSums:
        """Returns the loss of one batch, summed, ready for `backward`."""
        return self._measure(self._working_model, batch)

    def learn(
        self, batch: Batch, *, num_target_tokens: int, num_examples: int, records: bool = True
    ) -> Tensor:
        """Adds the gradients of a batch, and returns its loss and negative log-likelihood, summed.

        A pass that was recorded overwrites them: only a copy in bfloat16 is recorded, and its
        gradients are added to the model's own after each pass.

        Args:
            batch: The batch.
            num_target_tokens: Of the update, in all processes, of whose mean the gradients are.
            num_examples: Likewise.
            records: Whether a filled batch's pass may be recorded.
        """
        if records and isinstance(batch, TranslationBatch) and batch.is_filled:
            if self._recorded is None:
                self._recorded = RecordedPasses(self._working_model, self._run_scaled)
            return self._recorded.run(batch, 1.0 / num_target_tokens)
        found = self.loss(batch)
        loss = found.join(num_target_tokens, num_examples)
        # Divided before: the sum over micro-batches and processes is then the mean per token.
        (loss / num_target_tokens).backward()  # type: ignore[no-untyped-call]
        return torch.stack((loss.detach(), found.negative_log_likelihood))

    def _run_scaled(self, batch: Any, scale: Tensor) -> Tensor:
        found = self.loss(batch)
        (found.loss * scale).backward()  # type: ignore[no-untyped-call]
        return torch.stack((found.loss.detach(), found.negative_log_likelihood))

    def validate(self) -> ValidationResult:
        """Returns what the model is worth; every process must call it."""
        return self._validator.validate(self._model)


class Updater:
    """Makes updates: the learner learns what the objective minimises, in all processes together."""

    def __init__(
        self,
        training: Training,
        objective: Objective[Any, Any],
        learner: Learner[nn.Module],
        processes: Processes,
        *,
        seed: int,
        max_tokens_key: str,
    ) -> None:
        self._training = training
        self._objective = objective
        self._learner = learner
        self._processes = processes
        self._seed = seed
        self._max_tokens_key = max_tokens_key

    def fit_micro_batch(self, num_sharing: int | None = None) -> int:
        """Returns the limit of a pass whose largest fits in every process's memory.

        It is in tokens a side. The largest that may come is tried, forward and backward, and the
        limit halved until it fits. The weights stay as they are. Where `num_sharing` is given, an
        update would be shared by so many processes; else it is by those that take part.

        Raises:
            MtkitError: Not even one sentence fits.
        """
        num_sharing = self._processes.count if num_sharing is None else num_sharing
        share = int(self._training.batch_tokens * SHARE_SLACK / num_sharing)
        longest = self._objective.batches.longest
        wanted = self._training.micro_batch_tokens
        if wanted == "auto":
            wanted = _CPU_AUTO_TOKENS if self._processes.device.type == "cpu" else share
        limit = max(min(share, wanted), longest)
        while True:
            largest = max(min(limit, share), longest)
            if not self._processes.any(not self._fits(largest)):
                return limit
            if limit <= longest:
                raise MtkitError(
                    f"out of memory with a single sentence of {limit:,} tokens per side",
                    f"lower {self._max_tokens_key} and prepare again, or use a smaller [model]",
                )
            limit = max(limit // 2, longest)
            if self._processes.is_first:
                warn(
                    f"out of memory with the largest micro-batch: trying {limit:,} tokens "
                    "(training.micro_batch_tokens); updates stay the same size, in more passes"
                )

    def _fits(self, limit: int) -> bool:
        """Checks that this process can pass its largest micro-batch forward and backward."""
        batches = self._objective.batches
        # A generator: making the batch may run out of memory, too.
        made_up = (("trying the largest micro-batch", batches.largest(limit)) for _ in range(1))
        sums, _ = self._try(_PROBE, made_up, num_target_tokens=1, num_examples=1)
        self._learner.forget_gradients()
        release_memory(self._processes.device)
        return sums is not None

    def make(self, step: int, update: Update[Any], *, rate: float, votes: Votes) -> Outcome:
        """Changes the weights by the gradient of the mean loss per target token of an update.

        Every process tries its micro-batches by itself; then all report how that went. Where one
        ran out of memory, all do the update again in smaller micro-batches. Nothing inside a
        backward pass waits for another process, so that an error there can't part them.

        Args:
            step: The update, counted from 1.
            update: Its batches.
            rate: Learning rate.
            votes: This process's.

        Raises:
            MtkitError: Out of memory, though every micro-batch is one sentence.
        """
        while True:
            num_passes = len(update.micro_batches)
            batches = (
                (f"step {step:,}, micro-batch {number} of {num_passes}", batch)
                for number, batch in enumerate(update.batches(), start=1)
            )
            sums, flat = self._try(
                step,
                batches,
                num_target_tokens=update.num_target_tokens,
                num_examples=len(update.examples),
            )
            if sums is not None:
                self._prefetch(update)
            wishes = torch.tensor([sums is None, *votes], dtype=torch.float64)
            if sums is None:
                sums = torch.zeros(2, dtype=torch.float64, device=self._processes.device)
            reported = torch.cat((sums, send(wishes, self._processes.device)))
            self._processes.sum_update(self._learner.weights, flat, reported)
            weights = [one for one in self._learner.weights if one.grad is not None]
            norm = nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
            # All processes hold the same sums, to the bit, and so come to the same answers.
            found = self._processes.read(torch.cat((reported, norm.to(reported)[None])))
            loss, nll, num_failed, *counts, length = found
            if not num_failed:
                break
            limit = self._lower_limit(step, update, int(num_failed))
            update = self._objective.batches.update(update.epoch, update.position, limit)
        is_applied = math.isfinite(length) and math.isfinite(loss)
        if is_applied:
            clipping = self._training.clipping
            if clipping is not None:
                nn.utils.clip_grads_with_norm_(weights, clipping.max_norm, norm)
            self._learner.update(rate)
        return Outcome(
            loss=loss,
            negative_log_likelihood=nll,
            num_target_tokens=update.num_target_tokens,
            num_tokens=update.num_tokens,
            num_slots=update.num_slots,
            gradient_norm=length,
            is_applied=is_applied,
            micro_batch_tokens=update.limit,
            votes=Votes(*(count > 0 for count in counts)),
        )

    def _try(
        self,
        step: int,
        batches: Iterable[tuple[str, Any]],
        *,
        num_target_tokens: int,
        num_examples: int,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Computes the gradients of this process's part of an update.

        Args:
            step: The update.
            batches: This process's, and what is said of each while it is at work.
            num_target_tokens: Of the update, in all processes.
            num_examples: Likewise.

        Returns:
            Sums of loss and negative log-likelihood, None where memory ran out; and the gradients
            laid flat for the others, zeros then.
        """
        seed_step(self._seed, step, self._processes.rank)
        sums = torch.zeros(2, dtype=torch.float64, device=self._processes.device)
        self._learner.forget_gradients()
        self._learner.working.refresh()
        try:
            for doing, batch in batches:
                self._processes.progress.beat(doing)
                sums += self._objective.learn(
                    batch,
                    num_target_tokens=num_target_tokens,
                    num_examples=num_examples,
                    records=step != _PROBE,
                )
                self._learner.working.accumulate_gradients()
            return sums, self._processes.flatten_gradients(self._learner.weights)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Not in the handler: the error would keep the frames, and their tensors, alive.
        self._learner.forget_gradients()
        release_memory(self._processes.device)
        return None, self._processes.flatten_gradients(self._learner.weights)

    def _prefetch(self, update: Update[Any]) -> None:
        """Gets the next update's batches to a GPU that is busy with this one."""
        if self._processes.device.type != "cuda":
            return
        try:
            self._objective.batches.prefetch(update)
        except (RuntimeError, MemoryError) as error:
            # Without room now they are gathered when they are needed.
            if not is_out_of_memory(error):
                raise

    def _lower_limit(self, step: int, update: Update[Any], num_failed: int) -> int:
        """Returns a smaller limit than that of the micro-batches that were too large."""
        # No micro-batch can be smaller than the longest sentence, whatever the limit.
        if update.largest > update.limit or update.is_in_single_examples:
            raise MtkitError(
                f"step {step:,}: out of memory, even in micro-batches of a single sentence",
                "check what else uses the memory; or lower "
                f"{self._max_tokens_key} and prepare again, or use a smaller [model]",
            )
        limit = update.largest // 2
        if self._processes.is_first:
            where = f" on {num_failed} of {self._processes.count} processes"
            warn(
                f"step {step:,}: out of memory{where if self._processes.count > 1 else ''}: "
                f"retrying in micro-batches of {limit:,} tokens, and keeping that limit"
            )
        return limit


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seeds torch's generators from nothing but these three."""
    drawn = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))
