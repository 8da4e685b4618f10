"""Counts of what becomes of the corpora, block by block."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mtkit.data.cleaning.alignment import Suspect
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES, CleanedBlock, choose_scattered
from mtkit.data.preparation.facts import CorpusFacts, ShownPair
from mtkit.recipe import Recipe
from mtkit.recipe.data import corpus_names


@dataclass
class CorpusTally:
    """What became of a corpus so far.

    Attributes:
        name: Its name in reports.
        num_read: Pairs read.
        num_left: Pairs that passed the filters, duplicates among them.
        num_invalid: Lines that were invalid UTF-8.
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
    samples: dict[str, list[ShownPair]] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)
    longest: list[tuple[int, ShownPair]] = field(default_factory=list)
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
            chosen = choose_scattered(np.array([sample["line"] - 1 for sample in merged]))
            self.samples[name] = [merged[index] for index in chosen]
        for suspect in block.suspects:
            before = self.suspects[-1] if self.suspects else None
            # A stretch that goes on across the border of two blocks.
            if before and before.last + 1 == suspect.first and before.shift == suspect.shift:
                lowest = min(before.correlation, suspect.correlation)
                self.suspects[-1] = replace(before, last=suspect.last, correlation=lowest)
            else:
                self.suspects.append(suspect)
        self.longest = sorted([*self.longest, *block.longest], key=lambda entry: -entry[0])
        del self.longest[NUM_SAMPLES:]
        self.num_characters.update(block.num_characters)

    def as_facts(self, is_duplicate: NDArray[np.bool_]) -> CorpusFacts:
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
                name: sorted(samples, key=lambda sample: sample["line"])
                for name, samples in self.samples.items()
            },
            "misaligned": [
                {
                    "first": suspect.first,
                    "last": suspect.last,
                    "shift": suspect.shift,
                    "correlation": round(suspect.correlation, 3),
                }
                for suspect in self.suspects
            ],
            "longest": [
                {"characters": characters, **sample} for characters, sample in self.longest
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
