"""Comma-separated text as spreadsheets write it: quoted fields, which may hold line breaks.

The separator is the most frequent in the first line: comma, semicolon or tab.
"""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from mtkit.data.sources.lines import check_has_content, opening
from mtkit.data.sources.tables import TableColumns
from mtkit.data.sources.tsv import find_places, warn_of_names
from mtkit.data.sources.values import RawRows, ValueSource
from mtkit.errors import MtkitError
from mtkit.storage import Location
from mtkit.units import plural

_SEPARATORS = ",;\t"
_PEEK_BYTES = 1 << 16
_MAX_FIELD = 1 << 24
"""Characters of a field: a quote without an end takes all that follows."""


@contextmanager
def open_csv(path: Location, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens comma-separated text; the first row is a pair unless columns are named."""
    check_has_content(path)
    csv.field_size_limit(_MAX_FIELD)
    with opening(path) as stream:
        first_line = cast(io.BufferedReader, stream).peek(_PEEK_BYTES).split(b"\n", 1)[0]
        separator = max(_SEPARATORS, key=first_line.decode("latin-1").count)
        # Invalid UTF-8 is reported by row later.
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        rows = csv.reader(text, delimiter=separator, strict=True)
        columns = wanted.number()
        if not any(isinstance(column, str) for column in columns.values()):
            warn_of_names(first_line, separator, str(path), wanted.languages)
        try:
            places = find_places(columns, lambda: next(rows, []), path)
        except csv.Error as error:
            raise _explain_damage(str(path), 1, error) from error
        found = _read_rows(rows, places, str(path))
        yield ValueSource(found, tuple(wanted.columns), str(path), wanted.languages)


def _read_rows(rows: Iterator[list[str]], places: dict[str, int], name: str) -> RawRows:
    """Yields the wanted values of each row; those of a blank row are blank."""
    number, last = 0, max(places.values())
    try:
        for row in rows:
            number += 1
            if len(row) <= last and any(map(str.strip, row)):
                raise MtkitError(
                    f"{name}, row {number}: {plural(len(row), 'column')}, but column {last + 1} is "
                    "needed",
                    "fix the row; or, if the text is in other columns, name those",
                )
            values = row if len(row) > last else [""] * (last + 1)
            yield tuple(
                values[place].encode("utf-8", "surrogateescape") for place in places.values()
            )
    except csv.Error as error:
        raise _explain_damage(name, number + 1, error) from error


def _explain_damage(name: str, row: int, error: csv.Error) -> MtkitError:
    return MtkitError(f"{name}, row {row}: {error}", "is a quote in it not closed, or not doubled?")
