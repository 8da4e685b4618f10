"""The rows that a translator's tokens get in transformers' embeddings.

An imported model gets back the rows that it had. Training may have told apart tokens that shared a
row, such as `<pad>` and the decoder's first input: each that differs gets a row behind the others.
A model of mtkit's own keeps its order, and its `<s>` is `<pad>` there: the decoder's first input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.model.importers.marian import UNUSED_PIECE
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK


@dataclass(frozen=True)
class TokenRows:
    """A vocabulary in transformers' order.

    Attributes:
        rows: The row of each token of mtkit's.
        origins: The token that each row's vectors are of.
        pieces: The row of each piece, as vocab.json has it.
        pad: Row of `<pad>`.
        start: Row of the decoder's first input.
        forbidden: Rows that may not be written.
    """

    rows: tuple[int, ...]
    origins: tuple[int, ...]
    pieces: Mapping[str, int]
    pad: int
    start: int
    forbidden: tuple[int, ...]

    @property
    def eos(self) -> int:
        """Row of `</s>`."""
        return self.rows[EOS]

    def arrange(self, vectors: Tensor) -> Tensor:
        """Returns one vector, or number, for each row, given those of tokens."""
        return vectors[torch.tensor(self.origins)]


def keep_order(pieces: Sequence[str]) -> TokenRows:
    """Returns rows in the order of mtkit's tokens.

    Args:
        pieces: The piece of each token.
    """
    names = [UNUSED_PIECE, pieces[UNK], SPECIAL_PIECES[PAD], *pieces[EOS:]]
    tokens = tuple(range(len(pieces)))
    return TokenRows(
        rows=tokens,
        origins=tokens,
        pieces={name: row for row, name in reversed(list(enumerate(names)))},
        pad=BOS,
        start=BOS,
        forbidden=(PAD, BOS),
    )


def give_back(
    pieces: Sequence[str], foreign: Sequence[int], vectors: Sequence[Tensor]
) -> TokenRows:
    """Returns the rows that an imported model's tokens had, and new ones where training needs them.

    Args:
        pieces: The piece of each token.
        foreign: The row that each token had; tokens that were added later have none.
        vectors: Matrices of a vector for each token; tokens that shared a row still do where all
            of these are equal.
    """
    num_rows = max(foreign) + 1
    rows: dict[int, int] = {}
    origins: dict[int, int] = {}
    # A row that several tokens share is that of a token which may be written, never of `<s>`.
    for token in (PAD, UNK, EOS, *range(len(SPECIAL_PIECES), len(pieces)), BOS):
        row = foreign[token] if token < len(foreign) else num_rows
        first = origins.get(row)
        if first is not None and not all(each[first].equal(each[token]) for each in vectors):
            row = num_rows
        if row == num_rows:
            num_rows += 1
        rows[token] = row
        origins.setdefault(row, token)
    # Whoever looks up a piece without a row of its own gets the row of unknown pieces.
    named = {
        piece: rows[token]
        for token, piece in enumerate(pieces)
        if origins[rows[token]] == token and (token != BOS or rows[BOS] != rows[PAD])
    }
    pad, start = rows[PAD], rows[BOS]
    return TokenRows(
        rows=tuple(rows[token] for token in range(len(pieces))),
        origins=tuple(origins[row] for row in range(num_rows)),
        pieces=dict(sorted(_restore(named).items(), key=lambda item: item[1])),
        pad=pad,
        start=start,
        forbidden=(pad,) if start == pad else (pad, start),
    )


def _restore(pieces: Mapping[str, int]) -> dict[str, int]:
    """Returns pieces without those that stand for a row which no text has."""
    return {piece: row for piece, row in pieces.items() if not piece.startswith("<row ")}
