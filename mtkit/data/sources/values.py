"""Rows whose values come one by one: from an Arrow table, a translation memory, a generator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from mtkit.data.sources.blocks import decode_values, explain_encoding, is_invalid
from mtkit.errors import MtkitError
from mtkit.units import plural

RawRows = Iterator[tuple[bytes, ...] | None]
"""Values of each row as UTF-8; None for an entry that isn't a row."""


class ValueSource:
    """Rows from an iterator; `name` is their origin, for messages.

    `languages` are those of a text file, whose encoding an error then names; None for others.
    `first_number` is the number of the first row in its file.
    """

    no_rows = "no rows in it"

    def __init__(
        self,
        rows: RawRows,
        columns: Sequence[str],
        name: str,
        languages: tuple[str, str] | None = None,
        *,
        first_number: int = 1,
    ) -> None:
        self._rows = rows
        self._num_columns = len(columns)
        self.name = name
        self.num_skipped = 0
        self.decoder = ValueDecoder(name, tuple(columns), languages, first_number)

    def take(self, count: int) -> Sequence[list[bytes]]:
        """Returns the columns of the next rows."""
        rows: list[tuple[bytes, ...]] = []
        while len(rows) < count:
            # No row is empty.
            row = next(self._rows, ())
            if row == ():
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
    """Decodes values that are UTF-8; see `ValueSource`."""

    name: str
    columns: tuple[str, ...]
    languages: tuple[str, str] | None = None
    first_number: int = 1

    def decode(
        self, content: Sequence[Sequence[bytes]], number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column; see `Decoder`."""
        last = number + len(content[0]) - 1

        def fault(index: int, error: UnicodeDecodeError) -> MtkitError:
            rows = list(zip(*content, strict=True))
            invalid = [row for row in rows if any(map(is_invalid, row))]
            # A column is decoded at a time: an earlier row may be invalid in a later column.
            index = rows.index(invalid[0])
            try:
                next(filter(is_invalid, invalid[0])).decode()
            except UnicodeDecodeError as first:
                error = first
            more = f"; also {plural(len(invalid) - 1, 'other row')} up to row {last:,}"
            hint = "write the table again with text in UTF-8"
            if self.languages is not None:
                values = [value for row in invalid for value in row if is_invalid(value)]
                hint = explain_encoding(PurePath(self.name), number + index, values, self.languages)
            return MtkitError(
                f"{self.locate(number + index, '')}: byte {error.start + 1} of the text is invalid "
                f"UTF-8 (0x{error.object[error.start]:02x})" + (more if len(invalid) > 1 else ""),
                hint,
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
