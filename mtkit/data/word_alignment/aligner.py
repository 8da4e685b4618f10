"""A trained aligner: links between the words of pairs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from mtkit.data.sources.pharaoh import Link
from mtkit.data.word_alignment.hidden_markov import (
    MAX_JUMP,
    Emissions,
    Posteriors,
    find_by_order,
)
from mtkit.data.word_alignment.pair_blocks import (
    CELLS_AT_ONCE,
    PairBlock,
    SimilarWords,
    cut_blocks,
    turn,
)
from mtkit.data.word_alignment.word_table import (
    NO_PAIR,
    Floats,
    Numbers,
    WordNumbers,
    WordPairs,
    pad_words,
)
from mtkit.errors import MtkitError, shorten
from mtkit.files import read_file

ALIGNER_FILE = "aligner.safetensors"
_MAKE_AGAIN = "rebuild the model with `mtkit average`, or copy the complete folder again"
MAX_WORDS = 400
"""Pairs with more words on a side aren't aligned: time grows with the square."""
Cells = NDArray[np.int32]
_PRIOR = 0.1
"""How many links to any word each word counts as having before pairs are seen."""
_MIN_AGREED = 0.1
"""Minimum product of both sides' posteriors for two words to be linked."""
_MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Direction:
    """The model of one side's words, given the other's.

    Attributes:
        by_pair: Probability of a word given another, by `WordPairs`.
        by_none: Probability of each word without a counterpart; the last is for unknown words.
        jumps: Weight of each jump; see `find_by_order`.
        by_itself: Unconditional probability of each word; the last is for unknown words.
        counts: How often each given word was linked; the last is for unknown words, 0.
    """

    by_pair: Floats
    by_none: Floats
    jumps: Floats
    by_itself: Floats
    counts: Floats

    def emit(self, cells: Cells, words: Numbers, given: Numbers) -> Floats:
        """Returns the probability of each word given each of the other side, [batch, words, given].

        `cells` are indices of `WordPairs`, [batch, words, given]; `words` is [batch, words],
        `given` is [batch, given]. A rarely seen word gives probability to all others (Dirichlet
        prior).
        """
        seen = np.where(cells == NO_PAIR, 0.0, self.by_pair[cells])
        counts = self.counts[given][:, None]
        prior = _PRIOR * self.by_itself[words][:, :, None]
        return (counts * seen + prior) / (counts + _PRIOR)

    def keep(self, is_kept: NDArray[np.bool_]) -> "Direction":
        """Returns a direction with some of the pairs of words, in the precision of a file."""
        arrays = {**vars(self), "by_pair": self.by_pair[is_kept]}
        return Direction(
            **{name: each.astype(np.float32).astype(np.float64) for name, each in arrays.items()}
        )


class WordAligner:
    """Aligns the words of pairs by a hidden Markov model from each side.

    `forward` models target words given source words, `backward` the reverse; `none` is the
    probability that a word has no counterpart.
    """

    def __init__(
        self,
        sources: WordNumbers,
        targets: WordNumbers,
        pairs: WordPairs,
        forward: Direction,
        backward: Direction,
        *,
        none: float,
    ) -> None:
        self.sources, self.targets, self.pairs = sources, targets, pairs
        self.forward, self.backward, self.none = forward, backward, none

    def save(self, path: Path) -> None:
        """Writes the aligner, for other processes and translators to `load`."""
        # Words hold no spaces.
        arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(" ".join(numbers.numbers).encode(), np.uint8)
            for name, numbers in (("sources", self.sources), ("targets", self.targets))
        }
        for name, direction in (("forward", self.forward), ("backward", self.backward)):
            arrays |= {
                f"{name}_{key}": value.astype(np.float32) for key, value in vars(direction).items()
            }
        arrays |= {"keys": self.pairs.keys, "none": np.array([self.none])}
        path.write_bytes(safetensors.numpy.save(arrays))

    @classmethod
    def load(cls, path: Path) -> "WordAligner":
        """Returns an aligner that `save` wrote."""
        try:
            arrays = safetensors.numpy.load(read_file(path, max_bytes=_MAX_BYTES))
            sources, targets = (
                WordNumbers(arrays[name].tobytes().decode().split(" "))
                for name in ("sources", "targets")
            )
            pairs = WordPairs(arrays["keys"], max(len(targets), 1))
            forward, backward = (
                _read_direction(arrays, name, len(pairs.keys), len(words), len(given))
                for name, words, given in (
                    ("forward", targets, sources),
                    ("backward", sources, targets),
                )
            )
            pairs.check(len(sources))
            none = float(np.clip(arrays["none"].item(), 1e-6, 1.0 - 1e-6))
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise MtkitError(
                f"{path}: damaged or missing: {shorten(str(error), 200)}", _MAKE_AGAIN
            ) from error
        return cls(sources, targets, pairs, forward, backward, none=none)

    def align(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> list[set[Link]]:
        """Returns each pair's links, regardless of other pairs; none for a very long one."""
        found: list[set[Link]] = [set() for _ in sources]
        lengths = [
            (len(source), len(target)) for source, target in zip(sources, targets, strict=True)
        ]
        for block in cut_blocks(lengths, max_words=MAX_WORDS, max_cells=CELLS_AT_ONCE):
            of_block = [sources[index] for index in block], [targets[index] for index in block]
            for index, links in zip(block, self._align(*of_block), strict=True):
                found[index] = links
        return found

    def _align(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> Iterator[set[Link]]:
        source_numbers, source_lengths = pad_words([self.sources.find(each) for each in sources])
        target_numbers, target_lengths = pad_words([self.targets.find(each) for each in targets])
        block = PairBlock(
            range(len(sources)),
            self.pairs.find(source_numbers, target_numbers),
            source_numbers,
            target_numbers,
            source_lengths,
            target_lengths,
            SimilarWords.find(sources, targets),
        )
        forward, backward = (
            find_by_order(
                Emissions(
                    each.finish(direction.emit(each.cells, each.targets, each.sources)),
                    direction.by_none[each.targets],
                    each.source_lengths,
                    each.target_lengths,
                ),
                direction.jumps,
                self.none,
                counts_jumps=False,
            )
            for direction, each in ((self.forward, block), (self.backward, block.turn()))
        )
        return find_agreed(forward, backward, source_lengths, target_lengths)


def find_agreed(
    forward: Posteriors, backward: Posteriors, source_lengths: Numbers, target_lengths: Numbers
) -> Iterator[set[Link]]:
    """Yields the links of each pair of a block: what both sides' posteriors agree on."""
    agreed = forward.by_source * turn(backward.by_source)
    # Padding may hold anything.
    is_source = np.arange(agreed.shape[2]) < source_lengths[:, None]
    is_target = np.arange(agreed.shape[1]) < target_lengths[:, None]
    is_linked = (agreed >= _MIN_AGREED) & is_source[:, None] & is_target[:, :, None]
    rows, targets, sources = is_linked.nonzero()
    links = list(zip(sources.tolist(), targets.tolist(), strict=True))
    ends = np.cumsum(np.bincount(rows, minlength=len(agreed))).tolist()
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        yield set(links[first:last])


def _read_direction(
    arrays: Mapping[str, NDArray[Any]], name: str, num_pairs: int, num_words: int, num_given: int
) -> Direction:
    """Returns one direction of a saved aligner; raises KeyError or ValueError if damaged."""
    shapes = {
        "by_pair": num_pairs,
        "by_none": num_words + 1,
        "jumps": 2 * MAX_JUMP + 1,
        "by_itself": num_words + 1,
        "counts": num_given + 1,
    }
    found = {}
    for key, size in shapes.items():
        values = arrays[f"{name}_{key}"]
        if values.dtype != np.float32 or values.shape != (size,):
            raise ValueError(f"{name}_{key} has shape {values.shape}, not ({size},)")
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"{name}_{key} isn't all probabilities")
        found[key] = values.astype(np.float64)
    return Direction(**found)
