"""JSON lines: one object per line."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mtkit.data.sources.lines import LineReader, LineSource, check_has_content
from mtkit.data.sources.tables import TRANSLATION, TableColumns, kind_of, open_rows, parse_lines
from mtkit.errors import MtkitError
from mtkit.storage import Location

# An escape can express what UTF-8 can't.
_SURROGATE = re.compile("[\ud800-\udfff]")


@contextmanager
def open_json_lines(path: Location, wanted: TableColumns) -> Iterator[LineSource]:
    """Opens JSON lines."""
    check_has_content(path)
    with LineReader.open(path) as reader:
        yield open_rows(reader, JsonParser(wanted), wanted.languages)


@dataclass(frozen=True)
class JsonParser:
    """Finds values in objects."""

    wanted: TableColumns

    def __call__(
        self, lines: Sequence[str], name: str, number: int, *, drop_invalid: bool
    ) -> tuple[dict[str, list[str]], int]:
        """Returns the values of each column; a blank line's are blank; see `Parser`."""
        rows = parse_lines(lines, number, lambda line, number: self._read(line, f"{name}:{number}"))
        num_invalid = 0
        for index, line in enumerate(lines):
            if "\\u" in line and any(map(_SURROGATE.search, rows[index])):
                if not drop_invalid:
                    raise MtkitError(
                        f"{name}:{number + index}: half of a surrogate pair, such as \\ud83d, is "
                        "not a character",
                        "write the file again with text in UTF-8",
                    )
                rows[index] = [_SURROGATE.sub("\ufffd", value) for value in rows[index]]
                num_invalid += 1
        columns = zip(*rows, strict=True) if rows else [()] * len(self.wanted.columns)
        named = zip(self.wanted.columns, map(list, columns), strict=True)
        return dict(named), num_invalid

    def _read(self, line: str, where: str) -> list[str]:
        if not line.strip():
            return [""] * len(self.wanted.columns)
        row = parse_object(line, where)
        inner = row.get(TRANSLATION)
        inside = inner if isinstance(inner, dict) else {}
        found = []
        paths = self.wanted.find(row, inside, where)
        for column, path in zip(self.wanted.columns, paths, strict=True):
            value: Any = row
            for step in path:
                value = value[step]
            found.append(self.wanted.as_text(value, column, path[-1], where))
        return found


def parse_object(line: str, where: str) -> dict[str, Any]:
    """Returns the object in a line; `where` is file and line, for messages."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MtkitError(
            f"{where}: invalid JSON: {error}",
            "each line must be one complete object: jq -c . FILE, or jq -c '.[]' FILE for a list",
        ) from error
    if not isinstance(row, dict):
        raise MtkitError(
            f"{where}: expected an object, found {kind_of(row)}",
            "to turn a list of objects into JSON lines: jq -c '.[]' FILE",
        )
    return row
