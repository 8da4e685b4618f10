"""Target pieces that a source may need: a table of likely translations, and the most frequent.

A search that looks at a sentence's short list alone multiplies by a part of the output matrix
(Jean et al. 2015, arXiv 1412.2007, section 3.3; Marian and Bergamot search so).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from mtkit.errors import MtkitError, shorten
from mtkit.foreign_files import read_file
from mtkit.text.token_ids import SPECIAL_PIECES

SHORTLIST_FILE = "shortlist.safetensors"
MAX_FREQUENT, MAX_TRANSLATIONS = 2_000, 100
"""Pieces kept in a table: the most frequent, and the likeliest translations of each source piece.
A search may look at fewer."""

_MAX_HEADER_BYTES = 1 << 16
_MAKE_AGAIN = "make the model again with `mtkit average`, or copy the complete folder again"

Pieces = NDArray[np.int32]


@dataclass(frozen=True)
class Shortlist:
    """A table of translations by source piece.

    Attributes:
        frequent: The most frequent target pieces, in falling order.
        translations: Target pieces of each source piece, likeliest first, one piece's behind the
            other's.
        ends: Where each source piece's end in `translations`.
    """

    frequent: Pieces
    translations: Pieces
    ends: NDArray[np.int64]

    def limit(self, num_frequent: int, num_translations: int) -> "Shortlist":
        """Returns the table with fewer pieces: frequent ones, and of each source piece."""
        begins = np.concatenate(([0], self.ends[:-1]))
        ranks = np.arange(len(self.translations)) - np.repeat(begins, self.ends - begins)
        is_kept = ranks < num_translations
        ends = np.concatenate(([0], np.cumsum(is_kept)))[self.ends]
        return Shortlist(self.frequent[:num_frequent], self.translations[is_kept], ends)

    def list_translations(self, piece: int) -> Pieces:
        """Returns the translations of a source piece, likeliest first."""
        return self.translations[self.ends[piece - 1] if piece else 0 : self.ends[piece]]

    def find(self, sources: Sequence[Sequence[int]], vocab_size: int) -> NDArray[np.bool_]:
        """Checks which target pieces are in the list of each sentence, [sentence, target piece].

        Special pieces and frequent ones are in every list.

        Args:
            sources: Source tokens of each sentence.
            vocab_size: Number of target pieces.
        """
        is_listed = np.zeros((len(sources), vocab_size), dtype=bool)
        is_listed[:, : len(SPECIAL_PIECES)] = True
        is_listed[:, self.frequent] = True
        for row, source in zip(is_listed, sources, strict=True):
            for piece in set(source):
                row[self.list_translations(piece)] = True
        return is_listed

    def count_lines_missing(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], vocab_size: int
    ) -> int:
        """Returns how many targets have a piece that isn't in their source's list."""
        # A few at a time: a row is as long as the vocabulary.
        return sum(
            not self.find([source], vocab_size)[0, list(target)].all()
            for source, target in zip(sources, targets, strict=True)
        )

    def save(self, folder: Path) -> None:
        """Writes the table to a model folder.

        Raises:
            OSError: The disk is full, or the like.
        """
        arrays: dict[str, NDArray[Any]] = {
            "frequent": self.frequent.astype(np.int32),
            "translations": self.translations.astype(np.int32),
            "ends": self.ends.astype(np.int64),
        }
        (folder / SHORTLIST_FILE).write_bytes(safetensors.numpy.save(arrays))

    @classmethod
    def load(cls, folder: Path, vocab_sizes: tuple[int, int]) -> "Shortlist":
        """Returns the table in a model folder.

        Args:
            folder: The folder.
            vocab_sizes: The model's number of source and of target pieces.

        Raises:
            MtkitError: It is missing or damaged, or another vocabulary's.
        """
        path = folder / SHORTLIST_FILE
        num_sources, num_targets = vocab_sizes
        max_numbers = MAX_FREQUENT + num_sources * (MAX_TRANSLATIONS + 2)
        try:
            content = read_file(path, max_bytes=4 * max_numbers + _MAX_HEADER_BYTES)
        except FileNotFoundError as error:
            raise MtkitError(
                f"{path}: no short lists in this model folder (inference.shortlist)",
                "in its run's recipe, set [inference.shortlist] and run `mtkit average`; or "
                "translate without: --set '~inference.shortlist'",
            ) from error
        try:
            arrays = safetensors.numpy.load(content)
            table = cls(arrays["frequent"], arrays["translations"], arrays["ends"])
        except (SafetensorError, KeyError, ValueError) as error:
            raise MtkitError(f"{path}: damaged: {shorten(str(error), 200)}", _MAKE_AGAIN) from error
        if not table._is_sound(num_sources, num_targets):
            raise MtkitError(f"{path}: damaged, or of another vocabulary", _MAKE_AGAIN)
        return table

    def _is_sound(self, num_sources: int, num_targets: int) -> bool:
        """Checks types and shapes, that pieces are in the vocabulary, and that ends never fall."""
        of_pieces = (self.frequent, self.translations)
        if any(pieces.dtype != np.int32 or pieces.ndim != 1 for pieces in of_pieces):
            return False
        if self.ends.dtype != np.int64 or self.ends.shape != (num_sources,):
            return False
        bounds = np.concatenate(([0], self.ends, [len(self.translations)]))
        return bool((np.diff(bounds) >= 0).all()) and all(
            ((pieces >= 0) & (pieces < num_targets)).all() for pieces in of_pieces
        )
