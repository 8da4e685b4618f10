"""Where the pieces of an imported model come from."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from mtkit.text.token_ids import SPECIAL_PIECES, UNK


class ForeignRows(BaseModel):
    """Which rows of another program's embeddings the pieces of an imported model come from.

    Pieces that were added later, which come behind all others, have none.
    """

    model_config = ConfigDict(frozen=True)

    source: tuple[tuple[int, int], ...]
    """Rows of the source's pieces: the first of a run, and how many follow one another."""
    target: tuple[tuple[int, int], ...]
    """The same of the target's."""
    padding_bias: float | None = None
    """What the other program adds to the logit of padding, where the network here hides it."""

    @classmethod
    def of(
        cls, source: Sequence[int], target: Sequence[int], padding_bias: float | None = None
    ) -> "ForeignRows":
        """Returns the record of each piece's row."""
        return cls(
            source=tuple(_find_runs(source)),
            target=tuple(_find_runs(target)),
            padding_bias=padding_bias,
        )

    def list_rows(self, side: str) -> list[int]:
        """Returns the row of each piece of a side."""
        runs = self.source if side == "source" else self.target
        return [row for first, count in runs for row in range(first, first + count)]

    def list_unknown(self, side: str) -> list[int]:
        """Returns the pieces of a side that share the row of unknown pieces: text has no others."""
        rows = self.list_rows(side)
        return [
            token
            for token, row in enumerate(rows)
            if row == rows[UNK] and token >= len(SPECIAL_PIECES)
        ]


def _find_runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or rows[index] != rows[index - 1] + 1:
            yield rows[start], index - start
            start = index
