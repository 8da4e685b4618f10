"""Columns of a table: which are wanted, where they are, and their values as text."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mtkit.data.sources.blocks import decode_text
from mtkit.data.sources.lines import LineReader, LineSource
from mtkit.errors import MtkitError, suggest
from mtkit.storage import FileRange

TRANSLATION = "translation"
"""Column in which hub data sets keep a sentence in several languages, by code."""
_MAX_LISTED = 20
_MAX_BROKEN = 5
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
NUMBERED = ("document", "label")
"""Columns in which integers count as text."""
ColumnPath = tuple[str, ...]
"""A column, or a column and a field in it."""
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class TableColumns:
    """The columns that a corpus needs from a table.

    Attributes:
        columns: Name or number, from 1, of each column by our name for it, such as `source`;
            empty to find source and target by `languages`.
    """

    columns: Mapping[str, int | str]
    languages: tuple[str, str] = ("", "")

    def number(self) -> dict[str, int | str]:
        """Returns the columns of a table whose first two are source and target by default."""
        defaults = {"source": 1, "target": 2}
        return {name: column or defaults[name] for name, column in self.columns.items()}

    @property
    def hint(self) -> str:
        """What to do if a column is missing or isn't text."""
        *first, last = (f"{name}_column" for name in self.columns)
        return f"choose other columns with {', '.join(first)}{' and ' if first else ''}{last}"

    def find(
        self, names: Collection[str], inside: Collection[str], where: str
    ) -> tuple[ColumnPath, ...]:
        """Returns the path to each column.

        `names` are the table's columns, and `inside` the fields of its `translation` column, if
        any.
        """
        paths = tuple((str(column),) for column in self.columns.values())
        if not all(path[0] for path in paths):
            if all(language in inside for language in self.languages):
                return tuple((TRANSLATION, language) for language in self.languages)
            paths = tuple((language,) for language in self.languages)
            if any(path[0] not in names for path in paths):
                source, target = self.languages
                raise MtkitError(
                    f"{where}: expected a `{TRANSLATION}` column with '{source}' and '{target}', "
                    f"or columns '{source}' and '{target}', found columns {list_names(names)}"
                    + (f", `translation` with {list_names(inside)}" if inside else ""),
                    "name the columns: source_column = ..., target_column = ...",
                )
        for [name] in paths:
            if name not in names:
                raise MtkitError(
                    f"{where}: no column '{name}', found columns {list_names(names)}"
                    f"{suggest(name, names)}",
                    self.hint,
                )
        return paths

    def as_text(self, value: Any, column: str, key: str, where: str) -> str:
        """Returns a JSON or Arrow value as text; null is blank.

        An integer is text if it names a document or a label; so is a bool as a label.
        """
        if isinstance(value, str) or value is None:
            return value or ""
        if isinstance(value, bool) and column == "label":
            return str(value).lower()
        if isinstance(value, int) and not isinstance(value, bool) and column in NUMBERED:
            return str(value)
        expected = "a word or a whole number" if column == "label" else "text"
        raise MtkitError(
            f"{where}: expected {expected} in '{key}', found {kind_of(value)}", self.hint
        )


class Parser(Protocol):
    """Parses lines that hold a row each; picklable."""

    def __call__(
        self, lines: Sequence[str], name: str, number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column, and how many rows were invalid UTF-8.

        `number` is that of the first line. Invalid UTF-8 becomes U+FFFD if `drop_invalid`.
        """
        ...


@dataclass(frozen=True)
class TableDecoder:
    """Decodes a file whose lines hold a row each; `first_number` is the first such line."""

    name: str
    first_number: int
    parse: Parser
    languages: tuple[str, str] = ("", "")

    def decode(
        self, content: Sequence[bytes | FileRange], number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column; see `Decoder`."""
        lines, invalid = decode_text(
            content[0], self.name, number, drop_invalid=drop_invalid, languages=self.languages
        )
        columns, num_broken = self.parse(lines, self.name, number, drop_invalid=drop_invalid)
        return columns, len(invalid) + num_broken

    def locate(self, number: int, column: str) -> str:
        """Returns file and line."""
        del column
        return f"{self.name}:{number}"


def open_rows(reader: LineReader, parse: Parser, languages: tuple[str, str]) -> LineSource:
    """Returns the remaining rows of a reader, one per line; `languages` are for messages."""
    decoder = TableDecoder(reader.name, reader.num_taken + 1, parse, languages)
    return LineSource([reader], decoder)


def parse_lines(
    lines: Sequence[str], first_line: int, parse: Callable[[str, int], _Row]
) -> list[_Row]:
    """Returns each line parsed; raises the first error, with the number of broken lines."""
    rows: list[_Row] = []
    faults: list[tuple[int, MtkitError]] = []
    for number, line in enumerate(lines, start=first_line):
        try:
            rows.append(parse(line, number))
        except MtkitError as error:
            faults.append((number, error))
    if len(faults) > 1:
        _, first = faults[0]
        shown = ", ".join(str(number) for number, _ in faults[:_MAX_BROKEN])
        more = ", ..." if len(faults) > _MAX_BROKEN else ""
        raise MtkitError(
            f"{first.message}; {len(faults):,} of {len(lines):,} lines are broken: {shown}{more}",
            first.hint,
        ) from first
    if faults:
        raise faults[0][1]
    return rows


def kind_of(value: Any) -> str:
    """Returns a JSON value's type in words."""
    return _KINDS.get(type(value), "a number")


def list_names(names: Collection[str]) -> str:
    """Returns the first of some names, sorted, for a message."""
    quoted = [f"'{name}'" for name in sorted(names)]
    listed = ", ".join(quoted[:_MAX_LISTED])
    num_more = max(0, len(quoted) - _MAX_LISTED)
    return listed + (f" and {num_more:,} more" if num_more else "")
