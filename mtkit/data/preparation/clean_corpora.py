"""Corpora to cleaned text: read, repaired and filtered in several processes, duplicates marked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.normalization import choose_normalization
from mtkit.data.preparation.cleaned_block import (
    BlockCleaner,
    CleanedBlock,
    CleaningJob,
    choose_scattered,
    shorten,
)
from mtkit.data.preparation.duplicates import KeyFiles
from mtkit.data.preparation.facts import CorpusFacts, ShownPair, TextFacts
from mtkit.data.preparation.held_out import read_held_out
from mtkit.data.preparation.progress import follow
from mtkit.data.preparation.tallies import CleaningTally
from mtkit.data.preparation.text_store import TextStore, TextStoreWriter
from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import read_blocks
from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.recipe.cleaning import Cleaning
from mtkit.worker_processes import map_in_order

_PAIRS_PER_BLOCK = 10_000
_MARKS_AT_ONCE = 1_000_000


def read_training_blocks(recipe: Recipe, index: int) -> Iterator[Block]:
    """Yields the blocks of one training corpus, in order."""
    return read_blocks(
        recipe.data.train[index],
        index=index,
        pairs_per_block=_PAIRS_PER_BLOCK,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
    )


def clean_blocks(
    blocks: Iterable[Block], job: CleaningJob, *, num_workers: int
) -> Iterator[CleanedBlock]:
    """Yields what becomes of each block, in order, and shows how far it is."""
    cleaned = map_in_order(partial(BlockCleaner, job), blocks, num_workers=num_workers)
    yield from follow(((block.num_read, block) for block in cleaned), "cleaning")


def clean_corpora(recipe: Recipe, folder: Path, *, num_workers: int) -> TextFacts:
    """Writes the training corpora's cleaned text into a folder; returns what became of them.

    The text is the same whatever the number of workers. Corpora keep their order, and of equal
    pairs the first is kept.

    Args:
        recipe: Whose corpora to clean.
        folder: An empty folder.
        num_workers: Processes that clean.

    Raises:
        MtkitError: A corpus that can't be read, or of which nothing is left.
    """
    tests = (read_held_out(recipe, test_set, "test") for test_set in recipe.evaluation.test_sets)
    job = CleaningJob.of(
        recipe,
        list(read_held_out(recipe, recipe.data.dev, "dev")),
        chain.from_iterable(tests),
        normalizations=choose_normalization(recipe),
    )
    tally = CleaningTally(recipe)
    parts: list[tuple[int, int]] = []
    numbers = range(len(recipe.data.train))
    blocks = chain.from_iterable(read_training_blocks(recipe, number) for number in numbers)
    with (
        TextStoreWriter(folder, PAIR_COLUMNS) as store,
        KeyFiles(folder, job.duplicate_keys) as keys,
    ):
        for block in clean_blocks(blocks, job, num_workers=num_workers):
            tally.add(block)
            keys.append(block.keys)
            if block.text.num_rows:
                store.append(block.text)
                parts.append((block.corpus, block.text.num_rows))
    marks = keys.mark_duplicates(tally.pairs_per_corpus)
    corpora = []
    first = 0
    for corpus, is_duplicate in zip(tally.corpora, marks, strict=True):
        corpora.append(facts := corpus.as_facts(is_duplicate))
        if facts["dropped"]["duplicates"]:
            samples = _read_rows(folder, parts, _choose_marked(is_duplicate) + first)
            facts["samples"]["duplicates"] = samples
        first += len(is_duplicate)
    kept = sum(facts["kept"] for facts in corpora)
    if not kept:
        raise nothing_left(corpora)
    return {
        "corpora": corpora,
        "parts": parts,
        "kept": kept,
        "length_ratio": job.length_ratio,
        "notes": tally.notes,
        "seconds": {name: round(spent, 3) for name, spent in tally.seconds.items()},
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }


def _choose_marked(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the indices of a few marks, in order; in constant memory."""
    chosen = np.zeros(0, dtype=np.int64)
    for first in range(0, len(marks), _MARKS_AT_ONCE):
        found = np.flatnonzero(marks[first : first + _MARKS_AT_ONCE]) + first
        candidates = np.concatenate([chosen, found])
        chosen = candidates[choose_scattered(candidates)]
    return np.sort(chosen)


def _read_rows(
    folder: Path, parts: Sequence[tuple[int, int]], rows: NDArray[np.int64]
) -> list[ShownPair]:
    """Returns a few pairs of a text store."""
    store, first = TextStore(folder), 0
    samples: list[ShownPair] = []
    for number, (_, num_rows) in enumerate(parts):
        wanted = rows[(rows >= first) & (rows < first + num_rows)] - first
        if len(wanted):
            part = store.read_part(number).take(wanted)
            samples += [shorten(0, **pair) for pair in part.to_pylist()]
        first += num_rows
    return samples


def nothing_left(corpora: Sequence[CorpusFacts]) -> MtkitError:
    """Returns the fault that no pair of any corpus passed the filters, with what dropped them."""
    dropped: Counter[str] = Counter()
    for facts in corpora:
        dropped.update(facts["dropped"])
    reasons = ", ".join(f"{count:,} by {name}" for name, count in dropped.most_common() if count)
    total = sum(facts["read"] for facts in corpora)
    worst = dropped.most_common(1)[0][0]
    return MtkitError(
        f"data.train: no pair is left of {total:,}: {reasons}",
        "are these the right files and languages?"
        # A blank side can't be kept.
        + (f" --set data.cleaning.{worst}.enabled=false" if worst in Cleaning.model_fields else ""),
    )
