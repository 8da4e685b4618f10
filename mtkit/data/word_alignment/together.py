"""Aligns pairs together, with an aligner's knowledge and their own statistics."""

from collections.abc import Iterator, Sequence

import numpy as np

from mtkit.data.sources.pharaoh import Link
from mtkit.data.word_alignment.aligner import MAX_WORDS, Direction, WordAligner, find_agreed
from mtkit.data.word_alignment.alignment_learner import AlignmentLearner, PriorCounts
from mtkit.data.word_alignment.estimate import MAX_CELLS
from mtkit.data.word_alignment.pair_blocks import SimilarWords, number_pairs
from mtkit.data.word_alignment.word_table import NO_PAIR, Numbers, WordNumbers

Pair = tuple[tuple[str, ...], tuple[str, ...]]
_NUM_NONE = 100.0
"""Weight of the aligner's counts of unaligned words, in words of these pairs."""
_NUM_WORD_ROUNDS = 3
_NUM_ORDER_ROUNDS = 4


def align_together(
    aligner: WordAligner,
    sources: Sequence[Sequence[str]],
    targets: Sequence[Sequence[str]],
    *,
    max_cells: int = MAX_CELLS,
) -> list[set[Link]]:
    """Returns the links of each pair; they depend on the other pairs.

    The aligner is the prior, and a few rounds over these pairs add to it: words unknown to it are
    found by their positions here. A repeated pair counts once: it adds nothing new, and would
    reinforce its own random links. Above `max_cells` source words times target words, pairs are
    aligned in groups.
    """
    pairs = [
        (tuple(source), tuple(target)) for source, target in zip(sources, targets, strict=True)
    ]
    found: dict[Pair, set[Link]] = {}
    for group in _cut_groups(list(dict.fromkeys(pairs)), max_cells):
        for index, links in _align_group(aligner, *zip(*group, strict=True)):
            found[group[index]] = links
    return [set(found.get(pair, ())) for pair in pairs]


def _cut_groups(pairs: Sequence[Pair], max_cells: int) -> Iterator[list[Pair]]:
    """Yields pairs to align together, in order, without blank and very long ones."""
    group: list[Pair] = []
    num_cells = 0
    for source, target in pairs:
        if not (0 < len(source) <= MAX_WORDS and 0 < len(target) <= MAX_WORDS):
            continue
        if group and num_cells + len(source) * len(target) > max_cells:
            yield group
            group, num_cells = [], 0
        group.append((source, target))
        num_cells += len(source) * len(target)
    if group:
        yield group


def _align_group(
    aligner: WordAligner, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> Iterator[tuple[int, set[Link]]]:
    """Yields the links of each pair with its index."""
    source_numbers, target_numbers = WordNumbers(), WordNumbers()
    numbered = [
        (source_numbers.add(source), target_numbers.add(target))
        for source, target in zip(sources, targets, strict=True)
    ]
    words, blocks = number_pairs(
        numbered,
        len(target_numbers),
        max_words=MAX_WORDS,
        find_alike=lambda indices: SimilarWords.find(
            [sources[index] for index in indices], [targets[index] for index in indices]
        ),
    )
    known_sources = aligner.sources.find(list(source_numbers.numbers))
    known_targets = aligner.targets.find(list(target_numbers.numbers))
    # The aligner's index of each pair of words; NO_PAIR if it doesn't know it.
    found = aligner.pairs.find(
        known_sources[words.sources][:, None], known_targets[words.targets][:, None]
    )
    cells = found.ravel().astype(np.int64)
    cells[NO_PAIR] = NO_PAIR
    learner = AlignmentLearner(
        blocks,
        words,
        _recall(aligner.forward, cells, words.sources, known_sources, known_targets),
        _recall(aligner.backward, cells, words.targets, known_targets, known_sources),
        none=aligner.none,
    )
    learner.learn(by_words=_NUM_WORD_ROUNDS, by_order=_NUM_ORDER_ROUNDS)
    for number, block in enumerate(blocks):
        agreed = find_agreed(*learner.expect(number), block.source_lengths, block.target_lengths)
        yield from zip(block.indices, agreed, strict=True)


def _recall(
    direction: Direction, cells: Numbers, given: Numbers, known_given: Numbers, known: Numbers
) -> PriorCounts:
    """Returns an aligner's knowledge of one direction as counts; `cells` are its pair indices."""
    # The log lets these pairs' statistics outweigh a corpus of any size. An unknown word's -1
    # selects the last entry, which is for unknown words.
    by_given = np.log1p(direction.counts)[known_given]
    by_pair = np.where(cells == NO_PAIR, 0.0, direction.by_pair[cells]) * by_given[given]
    num_words = len(direction.by_none) - 1 + int((known < 0).sum())
    return PriorCounts(
        by_pair,
        by_given,
        _NUM_NONE * direction.by_none[known],
        num_words,
        direction.jumps / direction.jumps.max(),
    )
