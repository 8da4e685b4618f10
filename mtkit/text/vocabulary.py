"""Pieces of text and their ids, whatever cuts text into them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mtkit.text.token_ids import SPECIAL_PIECES, UNK

MAX_PIECES = 2_000_000
"""Twice what a recipe may ask for: tags and symbols are added to a vocabulary that is there."""


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of one side.

    Attributes:
        pieces: Every piece by its id; the special ones come first, by mtkit's ids and names.
    """

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, ordinary: Iterable[str]) -> "Vocabulary":
        """Returns the special pieces with ordinary ones behind them."""
        return cls((*SPECIAL_PIECES, *ordinary))

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Every piece's id; the lowest where several are spelled alike."""
        return {piece: token for token, piece in reversed(list(enumerate(self.pieces)))}

    def id_of(self, piece: str) -> int:
        """Returns a piece's id, or that of the unknown piece."""
        return self.ids.get(piece, UNK)
