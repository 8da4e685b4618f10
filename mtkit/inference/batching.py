"""Cuts sentences of similar length into batches, and searches them.

`inference.batch_tokens`, the bound of a batch, counts source tokens with their padding; training's
`batch_tokens` counts the real tokens of a side.
"""

import itertools
import math
from collections.abc import Sequence

from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference

_MIN_COUNTED_TOKENS = 8
"""A source counts for this many tokens at least, since each hypothesis of a step takes a row of the
vocabulary's size however short its source is."""


def make_batches(
    lengths: Sequence[int], batch_tokens: int, max_sentences: int | None = None
) -> list[list[int]]:
    """Returns indices in batches of similar length, longest first.

    Args:
        lengths: Number of tokens of each sentence.
        batch_tokens: Max tokens of a batch with padding, unless it is one sentence.
        max_sentences: Max sentences of a batch; None for no limit.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if room == 0:
            batches.append([])
            # Sorted, so the first sentence of a batch is its longest.
            room = max(1, batch_tokens // max(lengths[index], _MIN_COUNTED_TOKENS))
            room = min(room, max_sentences or room)
        batches[-1].append(index)
        room -= 1
    return batches


def make_shards(lengths: Sequence[int], batch_tokens: int, num_shards: int) -> list[list[int]]:
    """Returns indices in `num_shards` batches, or a multiple, of similar length and size.

    So all processes finish at about the same time. `lengths` and `batch_tokens` are as in
    `make_batches`.
    """
    total = sum(max(length, _MIN_COUNTED_TOKENS) for length in lengths)
    min_batches = num_shards * max(1, math.ceil(total / (batch_tokens * num_shards)))
    for num_batches in itertools.count(min_batches, num_shards):
        size = min(batch_tokens, math.ceil(total / num_batches))
        while len(batches := make_batches(lengths, size)) > num_batches and size < batch_tokens:
            # There is padding, too.
            size = min(batch_tokens, size + math.ceil(size / 50))
        if len(batches) <= num_batches:
            break
    return batches


def search_in_batches(
    engine: Engine, sources: Sequence[EncodedSource], settings: Inference
) -> list[list[Hypothesis]]:
    """Returns each source's hypotheses; `batch_tokens` bounds what is searched together."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    batch_tokens = settings.batch_tokens * engine.batches_at_once
    for batch in make_batches([len(source.tokens) for source in sources], batch_tokens):
        hypotheses = engine.search([sources[index] for index in batch], settings)
        for index, of_source in zip(batch, hypotheses, strict=True):
            found[index] = of_source
    return found
