"""Which sentences make up each update: a pure function of lengths, seed and epoch.

An update's sentences don't depend on how many processes share it or how much fits into one pass;
only its cut into micro-batches does.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def plan_epoch(
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    batch_tokens: int,
    length_groups: int,
    seed: int,
    epoch: int,
) -> list[Indices]:
    """Returns the sentences of each update of one epoch, every sentence once.

    Sentences are shuffled, sorted by length (those of one length stay shuffled) and cut into groups
    of at most batch_tokens / length_groups tokens a side. Groups are shuffled in turn; each update
    takes `length_groups` of them.

    Args:
        source_lengths: Tokens of each source, `</s>` counted.
        target_lengths: Tokens of each target, `</s>` counted.
        batch_tokens: Real tokens a side in one update, at most.
        length_groups: Groups of similar length in one update.
        seed: The recipe's seed.
        epoch: Passes over the data before this one.
    """
    generator = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = generator.permutation(len(source_lengths))
    order = order[np.lexsort((source_lengths[order], target_lengths[order]))]
    groups = cut(order, source_lengths, target_lengths, max_tokens=batch_tokens // length_groups)
    shuffled = generator.permutation(len(groups))
    return [
        np.concatenate([groups[place] for place in shuffled[first : first + length_groups]])
        for first in range(0, len(groups), length_groups)
    ]


def cut(
    order: Indices, source_lengths: Indices, target_lengths: Indices, *, max_tokens: int
) -> list[Indices]:
    """Returns `order` in pieces of at most `max_tokens` real tokens on either side.

    A sentence longer than that makes a piece of its own.
    """
    source_ends = np.cumsum(source_lengths[order])
    target_ends = np.cumsum(target_lengths[order])
    pieces = []
    first = 0
    while first < len(order):
        source_before = source_ends[first - 1] if first else 0
        target_before = target_ends[first - 1] if first else 0
        last = min(
            np.searchsorted(source_ends, source_before + max_tokens, side="right"),
            np.searchsorted(target_ends, target_before + max_tokens, side="right"),
        )
        last = max(int(last), first + 1)
        pieces.append(order[first:last])
        first = last
    return pieces


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that one process passes through the model together."""

    sentences: Indices
    num_padded_tokens: int


def split_update(
    sentences: Indices,
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    micro_batch_tokens: int,
    num_processes: int,
) -> list[list[MicroBatch]]:
    """Returns each process's micro-batches of one update.

    Sentences are sorted by length and cut so that a micro-batch, padding included, holds at most
    `micro_batch_tokens` of the longer side; then dealt out, largest first, to the process with the
    least so far. A process may get none.

    Args:
        sentences: The update, from `plan_epoch`.
        source_lengths: Tokens of each source, `</s>` counted.
        target_lengths: Tokens of each target, `</s>` counted.
        micro_batch_tokens: Bound of one pass.
        num_processes: How many processes share the update.
    """
    longer = np.maximum(source_lengths[sentences], target_lengths[sentences])
    by_length = np.lexsort((source_lengths[sentences], target_lengths[sentences]))
    # Enough pieces for every process, so that none idles while another passes twice.
    share = -(-int(longer.sum()) // num_processes)
    bound = max(min(micro_batch_tokens, share), int(longer.max()))
    micro_batches: list[MicroBatch] = []
    first, widest = 0, 0
    for place, index in enumerate(by_length):
        grown = max(widest, int(longer[index]))
        if grown * (place - first + 1) > bound:
            micro_batches.append(_micro_batch(sentences[by_length[first:place]], widest))
            first, grown = place, int(longer[index])
        widest = grown
    micro_batches.append(_micro_batch(sentences[by_length[first:]], widest))
    processes: list[list[MicroBatch]] = [[] for _ in range(num_processes)]
    load = [0] * num_processes
    for micro_batch in sorted(micro_batches, key=lambda batch: -batch.num_padded_tokens):
        least = load.index(min(load))
        processes[least].append(micro_batch)
        load[least] += micro_batch.num_padded_tokens
    return processes


def _micro_batch(sentences: Indices, widest: int) -> MicroBatch:
    return MicroBatch(sentences, widest * len(sentences))
