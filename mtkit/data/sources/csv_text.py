"""Comma-separated text as spreadsheets write it: quoted fields, which may hold line breaks.

The separator is the comma, semicolon or tab that gives most rows the same number of columns.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple, cast

from mtkit.data.sources.blocks import decode_text
from mtkit.data.sources.lines import check_has_content, opening
from mtkit.data.sources.tables import TableColumns
from mtkit.data.sources.tsv import find_places, warn_of_names
from mtkit.data.sources.values import RawRows, ValueSource
from mtkit.errors import MtkitError
from mtkit.storage import Location
from mtkit.units import plural

_SEPARATORS = {"\t": "a tab", ";": "a semicolon", ",": "a comma"}
_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t])\r?\n")
"""A first row that names the separator for Excel."""
_PEEK_BYTES = 1 << 16
_MAX_FIELD = 1 << 24
"""Characters of a field: a quote without an end takes all that follows."""
_NumberedRows = Iterator[tuple[int, list[str]]]


@contextmanager
def open_csv(path: Location, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens comma-separated text; the first row is a pair unless columns are named."""
    check_has_content(path)
    csv.field_size_limit(_MAX_FIELD)
    columns = wanted.number()
    names = {column for column in columns.values() if isinstance(column, str)}
    with opening(path) as stream:
        beginning: bytes = cast(io.BufferedReader, stream).peek(_PEEK_BYTES)
        first_line = beginning.split(b"\n", 1)[0]
        # An error for UTF-16 and compressed text. Other invalid text is reported by row later.
        decode_text(first_line, str(path), 1, drop_invalid=True, languages=wanted.languages)
        declared = _DECLARATION.match(beginning)
        separator = declared[1].decode() if declared else _choose_separator(beginning, names)
        text = _decode(stream)
        rows = _number_rows(text, separator, str(path))
        if declared:
            next(rows)
        elif not names:
            warn_of_names(first_line, separator, str(path), wanted.languages)
        places = find_places(columns, lambda: next(rows, (0, []))[1], path)
        first_number = 1 + bool(declared) + bool(names)
        found = _read_rows(rows, places, str(path), separator)
        yield ValueSource(
            found, tuple(wanted.columns), str(path), wanted.languages, first_number=first_number
        )


def _decode(stream: IO[bytes]) -> IO[str]:
    # Invalid UTF-8 is reported by row later.
    return io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")


def _parse(text: IO[str], separator: str) -> Iterator[list[str]]:
    return csv.reader(text, delimiter=separator, strict=True)


class _Fit(NamedTuple):
    """How well a separator fits; greater is better.

    Attributes:
        has_names: Whether the first row has the wanted names.
        share: The share of rows with the most frequent number of columns above one; half of it if
            quotes don't fit.
        columns: That number, negated: what is in each sentence may look like a separator too.
    """

    has_names: bool
    share: float
    columns: int


def _choose_separator(beginning: bytes, names: Collection[str]) -> str:
    """Returns the separator of a file that begins so; `names` are those of wanted columns."""

    def judge(separator: str) -> _Fit:
        rows: list[list[str]] = []
        trust = 1.0
        try:
            # Not a comprehension: rows before an error count.
            for row in _parse(_decode(io.BytesIO(beginning)), separator):
                rows.append(row)
        except csv.Error as error:
            if "end of data" not in str(error):
                trust = 0.5
        # The last row may be cut off.
        whole = [row for row in rows[:-1] or rows if any(map(str.strip, row))]
        counts = Counter(len(row) for row in whole if len(row) > 1)
        [(columns, number)] = counts.most_common(1) or [(0, 0)]
        has_names = bool(rows) and set(names) <= set(rows[0])
        return _Fit(has_names, trust * number / max(1, len(whole)), -columns)

    return max(_SEPARATORS, key=judge)


def _number_rows(text: IO[str], separator: str, name: str) -> _NumberedRows:
    """Yields the rows with their numbers in the file, from 1."""
    number = 0
    try:
        for number, row in enumerate(_parse(text, separator), start=1):
            yield number, row
    except csv.Error as error:
        raise MtkitError(
            f"{name}, row {number + 1}: {error}; {_SEPARATORS[separator]} separates columns here",
            "is a quote in it not closed, or not doubled?",
        ) from error


def _read_rows(rows: _NumberedRows, places: dict[str, int], name: str, separator: str) -> RawRows:
    """Yields the wanted values of each row; those of a blank row are blank."""
    last = max(places.values())
    for number, row in rows:
        if len(row) <= last and any(map(str.strip, row)):
            raise MtkitError(
                f"{name}, row {number}: {plural(len(row), 'column')}, but column {last + 1} is "
                f"needed; {_SEPARATORS[separator]} separates columns here",
                "fix the row; or, if the text is in other columns, name those",
            )
        values = row if len(row) > last else [""] * (last + 1)
        yield tuple(values[place].encode("utf-8", "surrogateescape") for place in places.values())
