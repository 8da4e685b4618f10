"""Deals the phrasebook's pairs out to train, dev and test."""

from collections.abc import Iterator
from random import Random
from zlib import crc32

from mtkit.data.phrasebook.sentences import SentenceMaker

PHRASEBOOK_SPLITS = ("train", "dev", "test")
# What a request may ask for at most: the grammar has more than twice as many.
MAX_PAIRS = {"train": 500_000, "dev": 20_000, "test": 20_000}
MAX_ENGLISH_WORDS = 15
MIN_ENGLISH_WORDS = 3


def find_split(german: str) -> str:
    """Returns the split of a German sentence: 90 % train, 5 % dev, 5 % test.

    The German decides, because every English sentence has one German: a sentence of either side
    then stands in one split only, even where two English sentences share their German.
    """
    share = crc32(german.encode()) % 20
    return "dev" if share == 0 else "test" if share == 1 else "train"


def generate_pairs(split: str, count: int, *, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yields `count` distinct (English, German) pairs of a split.

    The pairs depend on split, count and seed alone, on every platform and Python version, and a
    shorter request with the same seed is the start of a longer one.

    Args:
        split: One of `PHRASEBOOK_SPLITS`.
        count: The number of pairs.
        seed: Another seed draws other pairs of the same split.

    Raises:
        ValueError: The split is unknown, or more pairs are asked for than `MAX_PAIRS` allows.
    """
    if split not in PHRASEBOOK_SPLITS:
        raise ValueError(f"split must be one of {', '.join(PHRASEBOOK_SPLITS)}, got {split!r}")
    if not 0 <= count <= MAX_PAIRS[split]:
        raise ValueError(f"count must be between 0 and {MAX_PAIRS[split]} for {split}, got {count}")
    return _draw_pairs(split, count, seed)


def _draw_pairs(split: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    maker = SentenceMaker(Random(seed))
    seen: set[str] = set()
    while len(seen) < count:
        english, german = maker.make_pair()
        num_words = english.count(" ") + 1
        if not MIN_ENGLISH_WORDS <= num_words <= MAX_ENGLISH_WORDS:
            continue
        if find_split(german) == split and english not in seen:
            seen.add(english)
            yield english, german
