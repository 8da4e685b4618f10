"""The largest pass that fits in every process's memory, by a probe."""

from typing import Any

from torch import nn

from mtkit.console import warn
from mtkit.data.batches.micro_batches import SHARE_SLACK
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.training.distributed import Processes
from mtkit.training.learner import Learner
from mtkit.training.memory import is_out_of_memory, release_memory
from mtkit.training.objectives import Objective
from mtkit.training.update import seed_step

_CPU_AUTO_TOKENS = 8_192
"""On a processor a larger pass is no faster: its tensors leave the cache."""


def fit_micro_batch(
    recipe: Recipe,
    objective: Objective[Any],
    learner: Learner[nn.Module],
    processes: Processes,
    *,
    num_sharing: int | None = None,
) -> int:
    """Returns the limit of a pass, in tokens a side, whose largest fits in every process's memory.

    The largest that may come is tried, forward and backward, and the limit halved until it fits.
    The weights stay as they are. Where `num_sharing` is given, an update would be shared by so many
    processes; else it is by those that take part.

    Raises:
        MtkitError: Not even one sentence fits.
    """
    num_sharing = processes.count if num_sharing is None else num_sharing
    share = int(recipe.training.batch_tokens * SHARE_SLACK / num_sharing)
    longest = objective.batches.longest
    limit = max(_wanted_limit(recipe, processes, share), longest)
    while True:
        largest = max(min(limit, share), longest)
        if not processes.any(not _fits(recipe, objective, learner, processes, largest)):
            return limit
        if limit <= longest:
            raise MtkitError(
                f"out of memory with a single sentence of {limit:,} tokens per side",
                f"lower {recipe.data.max_tokens_key} and prepare again, or use a smaller [model]",
            )
        limit = max(limit // 2, longest)
        if processes.is_first:
            warn(
                f"out of memory with the largest micro-batch: trying {limit:,} tokens "
                "(training.micro_batch_tokens); updates stay the same size, in more passes"
            )


def _wanted_limit(recipe: Recipe, processes: Processes, share: int) -> int:
    """Returns the recipe's limit, or a process's share of an update where that is less."""
    wanted = recipe.training.micro_batch_tokens
    if wanted != "auto":
        return min(share, wanted)
    return min(share, _CPU_AUTO_TOKENS) if processes.device.type == "cpu" else share


def _fits(
    recipe: Recipe,
    objective: Objective[Any],
    learner: Learner[nn.Module],
    processes: Processes,
    limit: int,
) -> bool:
    """Checks that this process can pass its largest micro-batch forward and backward."""
    processes.progress.beat("trying the largest micro-batch")
    seed_step(recipe.seed, 0, processes.rank)
    learner.working.refresh()
    try:
        sums = objective.loss(objective.batches.largest(limit))
        sums.join(1, 1).backward()  # type: ignore[no-untyped-call]
        learner.working.accumulate_gradients()
        processes.flatten_gradients(learner.model)
        fits = True
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        fits = False
    # Not in the handler: the error would keep the frames, and their tensors, alive.
    learner.forget_gradients()
    release_memory(processes.device)
    return fits
