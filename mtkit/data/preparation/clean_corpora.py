"""Corpora to cleaned text: read, repaired and filtered in several processes, duplicates marked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.cleaning.alignment import Suspect
from mtkit.data.normalization import choose_normalization
from mtkit.data.preparation.cleaned_block import (
    NUM_SAMPLES,
    BlockCleaner,
    CleanedBlock,
    CleaningJob,
    Sample,
    choose_scattered,
    shorten,
)
from mtkit.data.preparation.duplicates import list_keys, mark_repeated
from mtkit.data.preparation.progress import follow
from mtkit.data.preparation.text_store import TextStore, TextStoreWriter, open_duplicate_marks
from mtkit.data.preparation.workers import map_in_order
from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import read_blocks, read_pairs
from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.recipe.cleaning import Cleaning
from mtkit.recipe.data import corpus_names

_PAIRS_PER_BLOCK = 10_000
_MARKS_AT_ONCE = 1_000_000


def read_held_out(recipe: Recipe, corpus: Any, split: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs of a development or test set, without its tag.

    Args:
        recipe: Whose set it is.
        corpus: The recipe's entry.
        split: What the embedded corpus stands for here: `dev` or `test`.
    """
    return read_pairs(
        corpus.model_copy(update={"tag": ""}),
        phrasebook_split=split,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
    )


@dataclass
class CorpusTally:
    """What became of a corpus so far.

    Attributes:
        name: Its name in reports.
        num_read: Pairs read.
        num_left: Pairs that passed the filters, duplicates among them.
        num_invalid: Lines that were no UTF-8.
        num_skipped: Entries that were no pair.
        num_dropped: Pairs that each filter dropped.
        repaired: Lines changed, by kind of repair.
        samples: Some of the pairs that each filter dropped.
        suspects: Stretches that look misaligned.
        longest: The longest pairs, with their characters.
        num_characters: Characters of the pairs that passed, by column.
    """

    name: str
    num_read: int = 0
    num_left: int = 0
    num_invalid: int = 0
    num_skipped: int = 0
    num_dropped: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)
    longest: list[tuple[int, Sample]] = field(default_factory=list)
    num_characters: Counter[str] = field(default_factory=Counter)

    def add(self, block: CleanedBlock) -> None:
        """Takes in the next block of the corpus."""
        self.num_read += block.num_read
        self.num_left += block.text.num_rows
        self.num_invalid += block.num_invalid
        self.num_skipped += block.num_skipped
        self.num_dropped.update(block.num_dropped)
        self.repaired.update(block.repaired)
        for name, samples in block.samples.items():
            merged = [*self.samples.get(name, []), *samples]
            chosen = choose_scattered(np.array([sample.line - 1 for sample in merged]))
            self.samples[name] = [merged[place] for place in chosen]
        for suspect in block.suspects:
            before = self.suspects[-1] if self.suspects else None
            # A stretch that goes on across the border of two blocks.
            if before and before.last + 1 == suspect.first and before.shift == suspect.shift:
                least = min(before.correlation, suspect.correlation)
                self.suspects[-1] = replace(before, last=suspect.last, correlation=least)
            else:
                self.suspects.append(suspect)
        self.longest = sorted([*self.longest, *block.longest], key=lambda entry: -entry[0])
        del self.longest[NUM_SAMPLES:]
        self.num_characters.update(block.num_characters)

    def as_facts(self, is_duplicate: NDArray[np.bool_]) -> dict[str, Any]:
        """Returns the tally as JSON can express it, once duplicates among what passed are known."""
        num_duplicates = int(np.count_nonzero(is_duplicate))
        return {
            "name": self.name,
            "read": self.num_read,
            "kept": self.num_left - num_duplicates,
            "invalid_utf8": self.num_invalid,
            "skipped": self.num_skipped,
            "dropped": {**self.num_dropped, "duplicates": num_duplicates},
            "repaired": dict(self.repaired),
            "samples": {
                name: [vars(sample) for sample in sorted(samples, key=lambda sample: sample.line)]
                for name, samples in self.samples.items()
            },
            "misaligned": [
                {**vars(suspect), "correlation": round(suspect.correlation, 3)}
                for suspect in self.suspects
            ],
            "longest": [
                {"characters": characters, **vars(sample)} for characters, sample in self.longest
            ],
            "source_characters": self.num_characters["source"],
            "target_characters": self.num_characters["target"],
        }


class CleaningTally:
    """What became of all training corpora so far.

    Attributes:
        corpora: The tally of each.
        seconds: Processor time, by filter.
        notes: What the filters can't do for these languages.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.corpora = [CorpusTally(name) for name in corpus_names(recipe.data.train)]
        self.seconds: Counter[str] = Counter()
        self.notes: list[str] = []

    def add(self, block: CleanedBlock) -> None:
        """Takes in the next block."""
        self.corpora[block.corpus].add(block)
        self.seconds.update(block.seconds)
        self.notes += [note for note in block.notes if note not in self.notes]

    @property
    def pairs_per_corpus(self) -> list[int]:
        """Pairs of each corpus that passed the filters, duplicates among them."""
        return [corpus.num_left for corpus in self.corpora]


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


def clean_corpora(recipe: Recipe, folder: Path, *, num_workers: int) -> dict[str, Any]:
    """Leaves the training corpora's cleaned text in a folder; returns what became of them.

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
    with TextStoreWriter(folder, PAIR_COLUMNS) as store, KeyFiles(folder, job.settings) as keys:
        for block in clean_blocks(blocks, job, num_workers=num_workers):
            tally.add(block)
            keys.append(block)
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
            facts["samples"]["duplicates"] = [vars(sample) for sample in samples]
        first += len(is_duplicate)
    kept = sum(facts["kept"] for facts in corpora)
    if not kept:
        raise nothing_left(corpora)
    return {
        "corpora": corpora,
        "parts": parts,
        "kept": kept,
        "balance": job.balance,
        "notes": tally.notes,
        "seconds": {name: round(spent, 3) for name, spent in tally.seconds.items()},
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }


class KeyFiles:
    """What duplicates are known by, on disk in the pairs' order while the corpora are read.

    Args:
        folder: Where; a text store's.
        settings: Which duplicates are dropped, if any.
    """

    def __init__(self, folder: Path, settings: Cleaning) -> None:
        self._folder = folder
        keys = list_keys(settings.duplicates.by) if settings.duplicates.enabled else ()
        self._paths = [folder / f"{key}.keys" for key in keys]
        self._streams: list[IO[bytes]] = []

    def __enter__(self) -> "KeyFiles":
        self._streams = [path.open("wb") for path in self._paths]
        return self

    def append(self, block: CleanedBlock) -> None:
        """Takes in the keys of the next block."""
        for stream, keys in zip(self._streams, block.keys, strict=True):
            stream.write(keys)

    def __exit__(self, *_: object) -> None:
        for stream in self._streams:
            stream.close()

    def mark_duplicates(self, pairs_per_corpus: Sequence[int]) -> list[NDArray[np.bool_]]:
        """Returns for each corpus which of its pairs are duplicates.

        The marks lie in a text store's file; the files of keys are gone afterwards.
        """
        marks = open_duplicate_marks(self._folder, sum(pairs_per_corpus))
        for path in self._paths:
            mark_repeated(path, marks)
            path.unlink()
        return np.split(marks, np.cumsum(pairs_per_corpus)[:-1])


def _choose_marked(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the places of a few marks, in order; in constant memory."""
    chosen = np.zeros(0, dtype=np.int64)
    for first in range(0, len(marks), _MARKS_AT_ONCE):
        found = np.flatnonzero(marks[first : first + _MARKS_AT_ONCE]) + first
        candidates = np.concatenate([chosen, found])
        chosen = candidates[choose_scattered(candidates)]
    return np.sort(chosen)


def _read_rows(
    folder: Path, parts: Sequence[tuple[int, int]], rows: NDArray[np.int64]
) -> list[Sample]:
    """Returns a few pairs of a text store."""
    store, samples, first = TextStore(folder), [], 0
    for number, (_, num_rows) in enumerate(parts):
        wanted = rows[(rows >= first) & (rows < first + num_rows)] - first
        if len(wanted):
            part = store.read_part(number).take(wanted)
            samples += [shorten(0, **pair) for pair in part.to_pylist()]
        first += num_rows
    return samples


def nothing_left(corpora: Sequence[dict[str, Any]]) -> MtkitError:
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
