"""A block of pairs, cleaned in whatever process: what is left of it, and what was dropped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.cleaning.clean import Cleaned, Cleaner, measure_length_ratio
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.data.preparation.duplicates import DuplicateKey, digest_pairs, list_keys
from mtkit.data.preparation.facts import BlockFacts, ShownPair
from mtkit.data.preparation.text_store import make_text_batch
from mtkit.data.sources.blocks import Block, decode_block
from mtkit.data.tokenizer_choice import punctuation_languages
from mtkit.recipe import Recipe
from mtkit.recipe.cleaning import Cleaning
from mtkit.text.normalization import Normalization
from mtkit.text.punctuation import punctuation_normalizer

NUM_SAMPLES = 5
"""Pairs that a report shows of each filter and corpus."""
_LONGEST_SHOWN = 300
"""Characters of a line that a report shows."""
_SCATTER = 0x9E3779B97F4A7C15
"""Odd, so that multiples modulo 2^64 are scattered: 2^64 divided by the golden ratio."""


@dataclass(frozen=True)
class CleaningJob:
    """The settings of a worker process that cleans blocks; picklable.

    Attributes:
        settings: The recipe's section.
        languages: Codes of source and target.
        length_ratio: Target characters per source character, of the development set.
        held_out: Development and test sets.
        punctuation: Languages whose punctuation is normalised first; None leaves it.
        drop_invalid: Whether a line of invalid UTF-8 is dropped, rather than an error.
    """

    settings: Cleaning
    languages: tuple[str, str]
    length_ratio: float
    held_out: HeldOut
    punctuation: tuple[str, str] | None
    drop_invalid: bool

    @property
    def duplicate_keys(self) -> tuple[DuplicateKey, ...]:
        """The ways by which duplicates are found, if they are dropped."""
        duplicates = self.settings.duplicates
        return list_keys(duplicates.by) if duplicates.enabled else ()

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        dev: Sequence[tuple[str, str]],
        tests: Iterable[tuple[str, str]],
        *,
        normalizations: tuple[Normalization, Normalization],
        drop_invalid: bool = False,
    ) -> "CleaningJob":
        """Returns a recipe's job.

        Args:
            recipe: Whose corpora are to be cleaned.
            dev: Its development set.
            tests: Its test sets, one after the other.
            normalizations: How its tokenizer normalises sources and targets.
            drop_invalid: Drop lines of invalid UTF-8, whatever the recipe says.
        """
        data = recipe.data
        punctuation = punctuation_languages(recipe)
        held_out = _normalize_punctuation(chain(dev, tests), punctuation)
        return cls(
            settings=data.cleaning,
            languages=data.languages,
            length_ratio=measure_length_ratio(dev),
            held_out=HeldOut.of(held_out, normalizations),
            punctuation=punctuation,
            drop_invalid=drop_invalid or data.cleaning.encoding.invalid_utf8 == "drop",
        )


@dataclass(frozen=True)
class CleanedBlock:
    """A block of pairs, cleaned.

    Attributes:
        corpus: Which entry of `data.train` it is of.
        text: The pairs that are left, as a part of a text store with `source` and `target`.
        keys: For each way of finding duplicates, 16 bytes a pair that is left.
        facts: What became of its pairs; duplicates aren't known yet.
        seconds: Time spent, by filter.
        notes: What the filters can't do for these languages.
    """

    corpus: int
    text: pa.RecordBatch
    keys: tuple[bytes, ...]
    facts: BlockFacts
    seconds: dict[str, float]
    notes: tuple[str, ...]


class BlockCleaner:
    """Cleans blocks; made once in each process."""

    def __init__(self, job: CleaningJob) -> None:
        self._job = job
        self._normalizers = tuple(map(punctuation_normalizer, job.punctuation or ()))
        self._keys = job.duplicate_keys
        self._cleaner = Cleaner(
            job.settings,
            languages=job.languages,
            length_ratio=job.length_ratio,
            held_out=job.held_out,
        )

    def __call__(self, block: Block) -> CleanedBlock:
        """Returns what becomes of a block.

        Raises:
            MtkitError: A line is invalid UTF-8, and such lines aren't dropped.
        """
        sources, targets, num_invalid = decode_block(block, drop_invalid=self._job.drop_invalid)
        if self._normalizers:
            sources, targets = (
                normalize(lines)
                for normalize, lines in zip(self._normalizers, (sources, targets), strict=True)
            )
        cleaned = self._cleaner.clean(sources, targets)

        return CleanedBlock(
            corpus=block.corpus,
            text=make_text_batch({"source": cleaned.sources, "target": cleaned.targets}),
            keys=tuple(digest_pairs(cleaned.sources, cleaned.targets, key) for key in self._keys),
            facts=_describe(block, sources, targets, cleaned, num_invalid),
            seconds=cleaned.seconds,
            notes=self._cleaner.notes(),
        )


def _describe(
    block: Block,
    sources: Sequence[str],
    targets: Sequence[str],
    cleaned: Cleaned,
    num_invalid: int,
) -> BlockFacts:
    """Returns what became of a block's pairs, whose lines are `sources` and `targets`."""

    def sample(indices: NDArray[np.int64]) -> list[ShownPair]:
        return [
            shorten(block.first + index + 1, sources[index], targets[index])
            for index in indices.tolist()
        ]

    lengths = np.array(list(map(len, sources))) + np.array(list(map(len, targets)))
    longest = np.argsort(-lengths, kind="stable")[:NUM_SAMPLES]
    return {
        "read": block.num_pairs,
        "kept": len(cleaned.sources),
        "invalid_utf8": num_invalid,
        "skipped": block.num_skipped,
        "dropped": {name: len(indices) for name, indices in cleaned.dropped.items()},
        "repaired": cleaned.repaired,
        "samples": {
            name: sample(indices[choose_scattered(indices + block.first)])
            for name, indices in cleaned.dropped.items()
            if len(indices)
        },
        "misaligned": [
            {
                "first": block.first + suspect.first + 1,
                "last": block.first + suspect.last + 1,
                "shift": suspect.shift,
                "correlation": round(suspect.correlation, 3),
            }
            for suspect in cleaned.suspects
        ],
        "longest": [
            {"characters": int(lengths[index]), **pair}
            for index, pair in zip(longest, sample(longest), strict=True)
        ],
        "source_characters": sum(map(len, cleaned.sources)),
        "target_characters": sum(map(len, cleaned.targets)),
    }


def _normalize_punctuation(
    pairs: Iterable[tuple[str, str]], languages: tuple[str, str] | None
) -> Iterable[tuple[str, str]]:
    """Returns pairs with the punctuation that the tokenizer sees, as training pairs have it."""
    if languages is None:
        return pairs
    source, target = map(punctuation_normalizer, languages)
    return ((source([ours])[0], target([theirs])[0]) for ours, theirs in pairs)


def shorten(line: int, source: str, target: str) -> ShownPair:
    """Returns a pair to read, as long as a report shows."""
    return {"line": line, "source": _clip(source), "target": _clip(target)}


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def choose_scattered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the indices of a few numbers, the same few of a union of parts as of the whole."""
    ranks = numbers.astype(np.uint64) * np.uint64(_SCATTER)
    return np.argsort(ranks, kind="stable")[:NUM_SAMPLES]
