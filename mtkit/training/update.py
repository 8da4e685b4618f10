"""One update: micro-batches accumulated, ranks agreed, gradients summed, weights changed.

Another objective needs a subclass of `StoredBatches` (training/objectives), a loss of one batch
(training/loss.py), a validator (training/validators.py), a line with all three in `_PARTS`
(training/build_learner.py), a network, and a line in `mtkit.model.build`.

Before the first update, a probe finds the largest pass that fits in every rank's memory.
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
from mtkit.training.distributed import ProcessGroup
from mtkit.training.graphs import CapturedPasses
from mtkit.training.learner import Learner
from mtkit.training.loss import LossSums
from mtkit.training.loss_scale import LossScale
from mtkit.training.validation import ModelValidator, ValidationResult

_NUM_DRAWN = 3
"""Index of the count of drawn tokens, behind the sums of the loss."""
_PROBE = 0
"""The step of a pass that probes memory; such a pass is never recorded."""
_CPU_AUTO_TOKENS = 8_192
"""On a CPU a larger pass is no faster: its tensors leave the cache."""


class RankRequests(NamedTuple):
    """A rank's requests at an update; one rank's request counts for all.

    Attributes:
        checkpoint: Whether a checkpoint is due by its clock.
    """

    stop: bool = False
    checkpoint: bool = False


class UpdateResult(NamedTuple):
    """The result of an update, the same on every rank.

    Attributes:
        loss: Sum over its target tokens, in nats, including that of examples (`LossSums.join`),
            without the divergence.
        negative_log_likelihood: Sum over its target tokens, in nats.
        num_target_tokens: Real ones, including `</s>`.
        num_tokens: Real tokens of both sides.
        num_slots: Real tokens and padding.
        gradient_norm: Euclidean norm of the gradient of the mean loss, before clipping.
        is_applied: Whether the weights have changed; False for a NaN or infinite loss or gradient.
        micro_batch_tokens: Limit of a pass that fits in memory, as far as known.
        requests: The union over all ranks.
        loss_scale: For the next update, in fp16.
        divergence: What R-Drop adds to the loss that is minimised.
    """

    loss: float
    negative_log_likelihood: float
    num_target_tokens: int
    num_tokens: int
    num_slots: int
    gradient_norm: float
    is_applied: bool
    micro_batch_tokens: int
    requests: RankRequests
    loss_scale: LossScale | None = None
    divergence: float = 0.0


Model = TypeVar("Model", bound=nn.Module)


class Objective(Generic[Model, Batch]):
    """Batches, a loss of one batch, and a validator.

    `measure` returns the loss of one batch as a sum over tokens, optionally with one over examples.
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
        self._recorded: CapturedPasses | None = None

    def loss(self, batch: Batch) -> LossSums:
        """Returns the loss of one batch, summed, ready for `backward`."""
        return self._measure(self._working_model, batch)

    def learn(
        self,
        batch: Batch,
        *,
        num_target_tokens: int,
        num_examples: int,
        factor: float = 1.0,
        records: bool = True,
    ) -> Tensor:
        """Adds the gradients of a batch; returns its sums (`LossSums.report`).

        A recorded pass overwrites gradients. So only a 16-bit copy is recorded, whose gradients
        are added to the model's own after each pass. Gradients are of the mean over the update,
        times `factor`: both counts are of all ranks. `records` allows recording a filled batch's
        pass.
        """
        if records and isinstance(batch, TranslationBatch) and batch.is_filled:
            if self._recorded is None:
                self._recorded = CapturedPasses(self._working_model, self._run_scaled)
            return self._recorded.run(batch, factor / num_target_tokens)
        found = self.loss(batch)
        loss = found.join(num_target_tokens, num_examples)
        # Divided first: the sum over micro-batches and ranks is then the mean per token.
        (loss / (num_target_tokens / factor)).backward()  # type: ignore[no-untyped-call]
        return found.report(loss)

    def _run_scaled(self, batch: Any, scale: Tensor) -> Tensor:
        found = self.loss(batch)
        (found.loss * scale).backward()  # type: ignore[no-untyped-call]
        return found.report(found.loss)

    def validate(self) -> ValidationResult:
        """Returns the model's loss and scores; every rank must call it."""
        return self._validator.validate(self._model)

    def estimate_validation(self) -> float:
        """Returns the seconds that a validation takes one process."""
        return self._validator.estimate_seconds(self._model)


class Updater:
    """Makes updates of the learner, on all ranks together."""

    def __init__(
        self,
        training: Training,
        objective: Objective[Any, Any],
        learner: Learner[nn.Module],
        processes: ProcessGroup,
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

    def fit_micro_batch(self, num_ranks: int | None = None) -> int:
        """Returns a limit of a pass, in tokens a side, that fits in every rank's memory.

        Tries the largest possible pass, forward and backward, and halves the limit until it fits.
        The weights don't change. An update is shared by `num_ranks` ranks, by default all. If
        even one sentence doesn't fit, that is an error.
        """
        num_ranks = self._processes.count if num_ranks is None else num_ranks
        share = int(self._training.batch_tokens * SHARE_SLACK / num_ranks)
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
        """Checks that this rank can run its largest micro-batch forward and backward."""
        batches = self._objective.batches
        # A generator, because building the batch may run out of memory too.
        made_up = (("trying the largest micro-batch", batches.largest(limit)) for _ in range(1))
        sums, _ = self._compute_gradients(_PROBE, made_up, num_target_tokens=1, num_examples=1)
        self._learner.forget_gradients()
        release_memory(self._processes.device)
        return sums is not None

    def make(
        self,
        step: int,
        update: Update[Any],
        *,
        rate: float,
        requests: RankRequests,
        loss_scale: LossScale | None = None,
    ) -> UpdateResult:
        """Changes the weights by the gradient of the mean loss per target token of an update.

        Every rank tries its micro-batches alone; then all report the outcome. If one ran out of
        memory, all repeat the update in smaller micro-batches. Nothing inside a backward pass waits
        for another rank, so an error there can't separate them. `step` counts from 1. If memory
        runs out with micro-batches of one sentence, that is an error.

        With `loss_scale`, for fp16, an update whose gradients overflow is repeated with half of it.
        """
        scale = loss_scale or LossScale()
        while True:
            num_passes = len(update.micro_batches)
            batches = (
                (f"step {step:,}, micro-batch {number} of {num_passes}", batch)
                for number, batch in enumerate(update.batches(), start=1)
            )
            sums, flat = self._compute_gradients(
                step,
                batches,
                num_target_tokens=update.num_target_tokens,
                num_examples=len(update.examples),
                factor=scale.factor,
            )
            if sums is not None:
                self._prefetch(update)
            drawn = update.num_drawn_tokens or 0
            requested = torch.tensor([drawn, sums is None, *requests], dtype=torch.float64)
            if sums is None:
                sums = torch.zeros(3, dtype=torch.float64, device=self._processes.device)
            reported = torch.cat((sums, send(requested, self._processes.device)))
            norm = self._learner.sum_update(flat, reported, self._processes, scale.factor)
            if update.num_drawn_tokens is not None:
                # Now that all ranks' counts are there: the mean was over an estimate.
                surplus = (reported[_NUM_DRAWN] / update.num_target_tokens).to(norm)
                self._learner.divide_gradients(surplus)
                norm /= surplus
            # All ranks hold bit-identical sums, and so make the same decisions.
            found = self._processes.read(torch.cat((reported, norm.to(reported)[None])))
            loss, nll, divergence, num_drawn, num_failed, *counts, length = found
            limit = update.limit
            if num_failed:
                limit = self._lower_limit(step, update, int(num_failed))
            elif math.isfinite(length) or not math.isfinite(loss) or scale.factor == 1.0:
                break
            else:
                scale = scale.after_overflow()
            update = self._objective.batches.update(update.epoch, update.position, limit)
        is_applied = math.isfinite(length) and math.isfinite(loss)
        if is_applied:
            loss_scale = None if loss_scale is None else scale.after_update()
            clipping = self._training.clipping
            if clipping is not None:
                nn.utils.clip_grads_with_norm_(self._learner.updated, clipping.max_norm, norm)
            self._learner.update(rate)
        return UpdateResult(
            loss=loss,
            negative_log_likelihood=nll,
            num_target_tokens=int(num_drawn) or update.num_target_tokens,
            num_tokens=update.num_tokens,
            num_slots=update.num_slots,
            gradient_norm=length,
            is_applied=is_applied,
            micro_batch_tokens=update.limit,
            requests=RankRequests(*(count > 0 for count in counts)),
            # After a skipped update as before: its gradients are NaN with any scale.
            loss_scale=loss_scale,
            divergence=divergence,
        )

    def _compute_gradients(
        self,
        step: int,
        batches: Iterable[tuple[str, Any]],
        *,
        num_target_tokens: int,
        num_examples: int,
        factor: float = 1.0,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Computes the gradients of this rank's part of an update.

        `batches` come with a text for the watchdog. Both counts are of the update on all ranks;
        `factor` multiplies the gradients.

        Returns:
            Sums (`LossSums.report`), None if memory ran out; and the flat gradients for the
            all-reduce, which are zeros then.
        """
        seed_step(self._seed, step, self._processes.rank)
        sums = torch.zeros(3, dtype=torch.float64, device=self._processes.device)
        self._learner.forget_gradients()
        self._learner.working.refresh()
        try:
            for doing, batch in batches:
                self._processes.progress.beat(doing)
                sums += self._objective.learn(
                    batch,
                    num_target_tokens=num_target_tokens,
                    num_examples=num_examples,
                    factor=factor,
                    records=step != _PROBE,
                )
                self._learner.working.accumulate_gradients()
            return sums, self._learner.flatten_gradients(self._processes)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Not in the handler: the error would keep the frames, and their tensors, alive.
        self._learner.forget_gradients()
        release_memory(self._processes.device)
        return None, self._learner.flatten_gradients(self._processes)

    def _prefetch(self, update: Update[Any]) -> None:
        """Gathers the next update's batches while the GPU is busy with this one."""
        if self._processes.device.type != "cuda":
            return
        try:
            self._objective.batches.prefetch(update)
        except (RuntimeError, MemoryError) as error:
            # Without room now they are gathered when they are needed.
            if not is_out_of_memory(error):
                raise

    def _lower_limit(self, step: int, update: Update[Any], num_failed: int) -> int:
        """Returns a smaller limit than the largest micro-batch."""
        largest = update.largest // self._objective.batches.sides_in_a_row
        # No micro-batch can be smaller than the longest sentence, whatever the limit.
        if largest > update.limit or update.is_in_single_examples:
            raise MtkitError(
                f"step {step:,}: out of memory, even in micro-batches of a single sentence",
                "check what else uses the memory; or lower "
                f"{self._max_tokens_key} and prepare again, or use a smaller [model]",
            )
        limit = largest // 2
        if self._processes.is_first:
            where = f" on {num_failed} of {self._processes.count} processes"
            warn(
                f"step {step:,}: out of memory{where if self._processes.count > 1 else ''}: "
                f"retrying in micro-batches of {limit:,} tokens, and keeping that limit"
            )
        return limit


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seeds torch's generators from these three numbers alone."""
    drawn = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))
