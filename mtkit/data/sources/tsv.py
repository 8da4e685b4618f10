"""Tab-separated text: one row per line; quotes are ordinary text."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mtkit.console import warn_once
from mtkit.data.sources.blocks import decode_text
from mtkit.data.sources.lines import LineReader, LineSource, check_has_content
from mtkit.data.sources.tables import TableColumns, list_names, open_rows, parse_lines
from mtkit.errors import MtkitError, suggest
from mtkit.storage import Location
from mtkit.text.letters import list_language_names
from mtkit.units import plural

_SIDES = ({"source", "src"}, {"target", "tgt", "trg"})
"""Other names that columns of pairs have."""


@contextmanager
def open_tsv(path: Location, wanted: TableColumns) -> Iterator[LineSource]:
    """Opens tab-separated text; the first line is a row unless columns are named."""
    check_has_content(path)
    columns = wanted.number()
    with LineReader.open(path) as reader:
        names: list[str] = []

        def read_names() -> list[str]:
            names.extend(_read_names(reader))
            return names

        places = find_places(columns, read_names, path)
        if reader.num_taken == 0:
            warn_of_names(reader.peek(), "\t", reader.name, wanted.languages)
        yield open_rows(reader, TsvParser(places, len(names)), wanted.languages)


@dataclass(frozen=True)
class TsvParser:
    """Finds columns of lines by their indices; with names no line may have more columns."""

    places: dict[str, int]
    num_names: int = 0

    def __call__(
        self, lines: Sequence[str], name: str, number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column; a blank line's are blank; see `Parser`."""
        del drop_invalid
        last = max(self.places.values())

        def split(line: str, number: int) -> list[str]:
            # The text after the last column isn't split.
            row = line.split("\t", last + 1)
            num_columns = line.rstrip("\t").count("\t") + 1 if self.num_names else 0
            if num_columns > self.num_names:
                raise MtkitError(
                    f"{name}:{number}: {num_columns} tab-separated columns, but the first line "
                    f"names {self.num_names}",
                    f'remove the tab that is too much, or leave the row out: skip = "{number}"',
                )
            if len(row) > last:
                return row
            if not line.strip():
                return [""] * (last + 1)
            keys = ", ".join(
                f"{column}_column = {place}" for place, column in enumerate(self.places, start=1)
            )
            raise MtkitError(
                f"{name}:{number}: {plural(len(row), 'tab-separated column')}, but "
                f"column {last + 1} is needed",
                f"fix the line; or, if the text is in other columns, set them: {keys}",
            )

        rows = parse_lines(lines, number, split)
        return {column: [row[place] for row in rows] for column, place in self.places.items()}, 0


def _read_names(reader: LineReader) -> list[str]:
    header = b"".join(reader.take(1))
    [line], _ = decode_text(header, reader.name, 1, drop_invalid=False)
    return line.split("\t")


def find_places(
    columns: Mapping[str, int | str], read_names: Callable[[], list[str]], path: Location
) -> dict[str, int]:
    """Returns the index of each column in a row; `read_names` takes the first row if needed."""
    has_names = any(isinstance(column, str) for column in columns.values())
    names = read_names() if has_names else []
    places: dict[str, int] = {}
    for key, column in columns.items():
        if isinstance(column, str) and column not in names:
            raise MtkitError(
                f"{path}:1: no column '{column}' in the first line, which has {list_names(names)}"
                + suggest(column, names),
                f"without column names in the first line, use numbers: {key}_column = 1",
            )
        place = names.index(column) if isinstance(column, str) else column - 1
        for other, taken in places.items():
            if place == taken:
                raise MtkitError(
                    f"{path}: {other}_column and {key}_column are both column {place + 1}"
                )
        places[key] = place
    return places


def warn_of_names(line: bytes, separator: str, name: str, languages: tuple[str, str]) -> None:
    """Warns if a first line that is read as text has names of the two languages or sides."""
    fields = line.decode("utf-8-sig", errors="replace").strip().split(separator)
    names = [field.strip().strip('"') for field in fields]
    if len(names) < 2 or not all(languages):
        return
    source, target = (
        next((each for each in names if each.lower() in list_language_names(code) | sides), "")
        for code, sides in zip(languages, _SIDES, strict=True)
    )
    if source and target and source != target:
        # A file may be opened several times.
        warn_once(
            f"{name}:1: looks like column names, {list_names(names)}, but is read as a pair; "
            f'to use them: source_column = "{source}", target_column = "{target}" '
            f"(mtkit split: --columns {shlex.quote(f'{source},{target}')})"
        )
