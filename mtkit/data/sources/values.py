"""Rows whose values come one by one: from an Arrow table, a translation memory, a generator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mtkit.data.sources.lines import decode_values
from mtkit.errors import MtkitError

RawRows = Iterator[tuple[bytes, ...] | None]
"""Values of each row as UTF-8; None for an entry that isn't a row."""


class _End:
    """Marks the end of the rows."""


_END = _End()


class ValueSource:
    """Rows from an iterator; `name` is their origin, for messages."""

    no_rows = "no rows in it"

    def __init__(self, rows: RawRows, columns: Sequence[str], name: str) -> None:
        self._rows = rows
        self._num_columns = len(columns)
        self.name = name
        self.num_skipped = 0
        self.decoder = ValueDecoder(name, tuple(columns))

    def take(self, count: int) -> Sequence[list[bytes]]:
        """Returns the columns of the next rows."""
        rows: list[tuple[bytes, ...]] = []
        while len(rows) < count:
            row = next(self._rows, _END)
            if isinstance(row, _End):
                break
            if row is None:
                self.num_skipped += 1
            else:
                rows.append(row)
        return [list(values) for values in zip(*rows, strict=True)] or [[]] * self._num_columns

    def pack(self, columns: Sequence[list[bytes]]) -> Sequence[list[bytes]]:
        """Returns the columns."""
        return columns


@dataclass(frozen=True)
class ValueDecoder:
    """Decodes values that are UTF-8; `name` is their origin."""

    name: str
    columns: tuple[str, ...]
    first_number = 1

    def decode(
        self, content: Sequence[Sequence[bytes]], number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column; see `Decoder`."""

        def fault(index: int, error: UnicodeDecodeError) -> MtkitError:
            return MtkitError(
                f"{self.locate(number + index, '')}: byte {error.start + 1} of the text "
                f"is invalid UTF-8 (0x{error.object[error.start]:02x})",
                "write the table again with text in UTF-8",
            )

        found = [decode_values(values, None if drop_invalid else fault) for values in content]
        columns = {column: texts for column, (texts, _) in zip(self.columns, found, strict=True)}
        return columns, len({row for _, invalid in found for row in invalid})

    def locate(self, number: int, column: str) -> str:
        """Returns the origin and the row."""
        del column
        return f"{self.name}, row {number}"


def encode_rows(rows: Iterator[tuple[str, ...]]) -> RawRows:
    """Yields rows of text in a source's form."""
    return (tuple(value.encode() for value in row) for row in rows)
