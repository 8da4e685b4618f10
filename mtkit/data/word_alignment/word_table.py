"""Numbers for words, and for the pairs of words that occur together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex
from numpy.typing import NDArray

from mtkit.text.words import UNSPACED, Span

_WORD = regex.compile(
    # Scripts without spaces between words: each character is a word.
    rf"[{UNSPACED}]\p{{M}}*"
    r"|\p{N}+(?:[.,]\p{N}+)*"
    rf"|[\p{{L}}\p{{M}}--[{UNSPACED}]]"
    r"+['’]?"
    r"|[^\s\p{L}\p{M}\p{N}]",
    regex.V1,
)
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = -1
"""The number of a word outside the vocabulary."""
NO_PAIR = 0
"""The index of words that never occur together; its probability is 0."""


def find_aligned_words(text: str, start: int = 0, end: int | None = None) -> list[Span]:
    """Returns the spans of a text's words: letters, a number, or one other character.

    An apostrophe belongs to the letters before it, as in French. In scripts without spaces between
    words, each character is a word.
    """
    return [found.span() for found in _WORD.finditer(text, start, end)]


@lru_cache(maxsize=1 << 14)
def split_word(word: str) -> tuple[tuple[str, bool], ...]:
    """Returns the aligned words of a space-separated token, each with whether its links count.

    Punctuation of a word with letters doesn't count.
    """
    has_letters = any(map(str.isalnum, word))
    return tuple(
        (word[start:end].casefold(), not has_letters or word[start].isalnum())
        for start, end in find_aligned_words(word)
    )


class WordNumbers:
    """Numbers words in order of appearance."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.numbers: dict[str, int] = {}
        self.add(list(words))

    def add(self, words: Sequence[str]) -> Numbers:
        """Returns the number of each word; a new word gets the next one."""
        numbers = self.numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)

    def find(self, words: Sequence[str]) -> Numbers:
        """Returns the number of each word; `UNKNOWN` if it has none."""
        return np.array([self.numbers.get(word, UNKNOWN) for word in words], np.int64)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class WordPairs:
    """Source and target words that occur in a pair of sentences together.

    `keys` are source number times target words plus target number, ascending; the first is -1.
    """

    keys: Numbers
    num_targets: int

    @property
    def sources(self) -> Numbers:
        """The source word of each."""
        return np.maximum(self.keys, 0) // self.num_targets

    @property
    def targets(self) -> Numbers:
        """The target word of each."""
        return np.maximum(self.keys, 0) % self.num_targets

    def check(self, num_sources: int) -> None:
        """Checks that the keys are ascending pairs of words; raises ValueError."""
        keys = self.keys
        if keys.dtype != np.int64 or keys.ndim != 1 or not len(keys) or keys[0] != -1:
            raise ValueError("keys aren't pairs of words")
        if (np.diff(keys) <= 0).any() or keys[-1] >= max(num_sources, 1) * self.num_targets:
            raise ValueError("keys aren't ascending, or belong to other words")

    def keep(self, is_kept: NDArray[np.bool_]) -> "WordPairs":
        """Returns some of the pairs; the first one must be kept."""
        return WordPairs(self.keys[is_kept], self.num_targets)

    def find(self, sources: Numbers, targets: Numbers) -> NDArray[np.int32]:
        """Returns the index of each pair of words, [batch, target, source], or `NO_PAIR`.

        `sources` is [batch, source] and `targets` is [batch, target], with `UNKNOWN` as padding.
        """
        keys = make_keys(sources, targets, self.num_targets)
        indices = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        indices[self.keys[indices] != keys] = NO_PAIR
        return indices.astype(np.int32)


def make_keys(sources: Numbers, targets: Numbers, num_targets: int) -> Numbers:
    """Returns the key of each pair of words of a block, [batch, target, source]."""
    is_known = (sources >= 0)[:, None] & (targets >= 0)[:, :, None]
    return np.where(is_known, sources[:, None] * num_targets + targets[:, :, None], -1)


def pad_words(sentences: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Returns sentences padded with `UNKNOWN`, and their lengths."""
    lengths = np.array([len(sentence) for sentence in sentences])
    is_word = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(is_word.shape, UNKNOWN)
    padded[is_word] = np.concatenate(sentences)
    return padded, lengths
