"""Tab-separated text: a pair a line; a quote is text like any other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.console import warn
from mtkit.data.sources.blocks import Block, Decoded, ReadSettings
from mtkit.data.sources.columns import list_names
from mtkit.data.sources.lines import (
    LineReader,
    check_has_content,
    check_lines,
    decode_text,
    join_lines,
    read_line_blocks,
)
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.corpora import PairedFileCorpus
from mtkit.units import plural


@dataclass(frozen=True)
class TsvOrigin:
    """Lines of tab-separated text.

    Attributes:
        name: Name of the file.
        first_line: Number of the first line, from 1.
        source_column: Place of the source in a line, from 0.
        target_column: Place of the target in a line, from 0.
    """

    name: str
    first_line: int
    source_column: int
    target_column: int

    def decode(self, block: Block, *, drop_invalid: bool) -> Decoded:
        """Returns what `decode_block` does; a blank line is a blank pair."""
        lines, num_invalid = decode_text(
            block.source, self.name, self.first_line, drop_invalid=drop_invalid
        )
        rows = split_columns(
            lines,
            max(self.source_column, self.target_column),
            self.name,
            self.first_line,
            example="source_column = 1, target_column = 2",
        )
        sources = [row[self.source_column] for row in rows]
        targets = [row[self.target_column] for row in rows]
        return sources, targets, num_invalid


def split_columns(
    lines: Sequence[str], last: int, name: str, first_line: int, *, example: str
) -> list[list[str]]:
    """Returns the columns of each line; those of a blank line are blank.

    Args:
        lines: Lines of tab-separated text.
        last: Place of the last column that is read, from 0; what follows it isn't cut.
        name: Name of the file.
        first_line: Number of the first line, from 1.
        example: Keys that name columns by number, for a message.

    Raises:
        MtkitError: Lines have too few columns.
    """
    rows = [line.split("\t", last + 1) for line in lines]
    faults: list[tuple[int, MtkitError]] = []
    for index, row in enumerate(rows):
        if len(row) <= last:
            if lines[index].strip():
                number = first_line + index
                fault = MtkitError(
                    f"{name}:{number}: {plural(len(row), 'tab-separated column')}, but "
                    f"column {last + 1} is needed",
                    f"fix the line; or, if the text is in other columns, set them: {example}",
                )
                faults.append((number, fault))
            rows[index] = [""] * (last + 1)
    check_lines(faults, len(lines))
    return rows


def read_tsv_blocks(corpus: PairedFileCorpus, reading: ReadSettings) -> Iterator[Block]:
    """Yields the lines of tab-separated text in blocks, not yet cut into columns.

    Raises:
        MtkitError: The file is missing, empty or damaged, or lacks a column that is named.
    """
    check_has_content(corpus.path)
    with LineReader.open(corpus.path) as reader:
        source_column, target_column = _find_columns(corpus, reader)
        # The line of names, if there is one, is taken.
        first_line = reader.num_taken + 1
        for block in read_line_blocks(
            reader,
            reading,
            lambda first: TsvOrigin(reader.name, first_line + first, source_column, target_column),
        ):
            if first_line + block.first == 1:
                _warn_of_names(block, reader.name, reading)
            yield block


def _warn_of_names(block: Block, name: str, reading: ReadSettings) -> None:
    """Warns where a first line that is read as text names the two languages."""
    start = block.source.split(b"\n", 1)[0]
    names = start.decode("utf-8-sig", errors="replace").strip().lower().split("\t")
    languages = [language.lower() for language in reading.languages]
    if sorted(names) == sorted(languages):
        warn(
            f"{name}:1: looks like column names, {list_names(names)}, but is read as a pair; to "
            f'use them: source_column = "{languages[0]}", target_column = "{languages[1]}"'
        )


def _find_columns(corpus: PairedFileCorpus, reader: LineReader) -> tuple[int, int]:
    """Returns the indices of both columns; takes the first line if it names them."""
    wanted = (corpus.source_column or 1, corpus.target_column or 2)
    source, target = find_places(wanted, reader, corpus.path, example="source_column = 1")
    if source == target:
        raise MtkitError(
            f"{corpus.path}: source_column and target_column are both column {source + 1}"
        )
    return source, target


def find_places(
    columns: Sequence[int | str], reader: LineReader, path: Path, *, example: str
) -> list[int]:
    """Returns the places of columns in a line, from 0; takes the first line if it names them.

    Args:
        columns: Numbers from 1, or names.
        reader: What has taken nothing yet.
        path: Its file.
        example: A key that names a column by number, for a message.

    Raises:
        MtkitError: No column has such a name.
    """
    names: list[str] = []
    if any(isinstance(column, str) for column in columns):
        header = join_lines(reader.take(1))
        [line], _ = decode_text(header, reader.name, 1, drop_invalid=False)
        names = line.split("\t")
    return [_place(column, names, path, example) for column in columns]


def _place(column: int | str, names: list[str], path: Path, example: str) -> int:
    if isinstance(column, int):
        return column - 1
    if column not in names:
        raise MtkitError(
            f"{path}:1: no column '{column}' in the first line, which has {list_names(names)}"
            + suggest(column, names),
            f"without column names in the first line, use numbers: {example}",
        )
    return names.index(column)
