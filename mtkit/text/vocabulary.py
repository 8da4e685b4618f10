"""Pieces of text and their ids."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mtkit.text.token_ids import SPECIAL_PIECES, UNK

MAX_PIECES = 2_000_000
"""Twice a recipe's limit: tags and symbols are added to an existing vocabulary."""


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of one side by id; mtkit's special ones come first."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, ordinary: Iterable[str]) -> "Vocabulary":
        """Returns the special pieces, followed by ordinary ones."""
        return cls((*SPECIAL_PIECES, *ordinary))

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Every piece's id; the lowest for pieces with equal spelling."""
        return {piece: token for token, piece in reversed(list(enumerate(self.pieces)))}

    def id_of(self, piece: str) -> int:
        """Returns a piece's id, or that of the unknown piece."""
        return self.ids.get(piece, UNK)
