"""JSON lines: an object a line."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.data.sources.blocks import Block, Decoded, ReadSettings, as_one_line
from mtkit.data.sources.columns import TRANSLATION, Columns
from mtkit.data.sources.lines import (
    LineReader,
    check_has_content,
    decode_text,
    parse_lines,
    read_line_blocks,
)
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
# An escape can write what UTF-8 can't contain.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class JsonOrigin:
    """Lines that hold an object each.

    Attributes:
        name: Name of the file.
        first_line: Number of the first line, from 1.
        columns: Where in an object the two sides are.
    """

    name: str
    first_line: int
    columns: Columns

    def decode(self, block: Block, *, drop_invalid: bool) -> Decoded:
        """Returns what `decode_block` does; a blank line is a blank pair."""
        lines, num_invalid = decode_text(
            block.source, self.name, self.first_line, drop_invalid=drop_invalid
        )
        sources: list[str] = []
        targets: list[str] = []
        pairs = parse_lines(
            lines,
            self.first_line,
            lambda line, number: self._read(line, f"{self.name}:{number}"),
        )
        for index, line in enumerate(lines):
            pair = pairs[index]
            if has_surrogate(line, pair):
                if not drop_invalid:
                    raise surrogate_fault(f"{self.name}:{self.first_line + index}")
                pair = list(map(replace_surrogates, pair))
                num_invalid += 1
            sources.append(as_one_line(pair[0]))
            targets.append(as_one_line(pair[1]))
        return sources, targets, num_invalid

    def _read(self, line: str, where: str) -> list[str]:
        """Returns both sides of a line."""
        if not line.strip():
            return ["", ""]
        row = parse_object(line, where)
        inner = row.get(TRANSLATION)
        inside = inner if isinstance(inner, dict) else {}
        ways = self.columns.find(row, inside, where)
        return [_text_at(row, way, where) for way in ways]


def has_surrogate(line: str, texts: Sequence[str]) -> bool:
    """Returns whether one of the texts that a line holds has half of a surrogate pair."""
    return "\\u" in line and any(_SURROGATE.search(text) for text in texts)


def surrogate_fault(where: str) -> MtkitError:
    """Returns the fault that a line has half of a surrogate pair."""
    return MtkitError(
        f"{where}: half of a surrogate pair, such as \\ud83d, is not a character",
        "write the file again with text in UTF-8",
    )


def replace_surrogates(text: str) -> str:
    """Returns text with U+FFFD for each half of a surrogate pair."""
    return _SURROGATE.sub("\ufffd", text)


def parse_object(line: str, where: str) -> dict[str, Any]:
    """Returns the object that a line holds.

    Args:
        line: The line.
        where: File and line, for messages.

    Raises:
        MtkitError: It is no JSON, or no object.
    """
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


def _text_at(row: dict[str, Any], way: tuple[str, ...], where: str) -> str:
    value: Any = row
    for step in way:
        value = value[step]
    if value is not None and not isinstance(value, str):
        raise MtkitError(
            f"{where}: expected text in '{way[-1]}', found {kind_of(value)}",
            "choose other columns with source_column and target_column",
        )
    return value or ""


def kind_of(value: Any) -> str:
    """Returns what a value of JSON is, in words."""
    return _KINDS.get(type(value), "a number")


def read_json_blocks(corpus: PairedFileCorpus, reading: ReadSettings) -> Iterator[Block]:
    """Yields JSON lines in blocks, not yet parsed.

    Raises:
        MtkitError: The file is missing, empty or damaged.
    """
    check_has_content(corpus.path)
    columns = Columns.of(corpus, reading)
    with LineReader.open(corpus.path) as reader:
        yield from read_line_blocks(
            reader, reading, lambda first: JsonOrigin(reader.name, first + 1, columns)
        )
