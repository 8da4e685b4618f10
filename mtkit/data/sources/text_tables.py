"""Tables with a column of text in one language: tab-separated text, JSON lines, Parquet."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.data.sources.blocks import BYTES_PER_BLOCK, ReadSettings
from mtkit.data.sources.columns import list_names
from mtkit.data.sources.json_lines import (
    has_surrogate,
    kind_of,
    parse_object,
    replace_surrogates,
    surrogate_fault,
)
from mtkit.data.sources.lines import (
    LineReader,
    check_has_content,
    decode_text,
    join_lines,
    parse_lines,
    take_block,
)
from mtkit.data.sources.parquet import open_parquet, texts_at
from mtkit.data.sources.sentences import Sentences, of_texts
from mtkit.data.sources.tsv import find_places, split_columns
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.text_corpora import TextTableCorpus

_LINE_BREAKS = re.compile(r"[\r\n]+")
_ROWS_AT_ONCE = 1_024
_NAME_COLUMN = "choose another column with text_column or document_column"

Rows = tuple[list[str], list[str] | None, int]
"""Text of each row; name of each one's document, if there are names; rows of invalid UTF-8."""


@dataclass(frozen=True)
class TsvColumns:
    """Which columns of tab-separated text are read.

    Attributes:
        text: Place of the text in a line, from 0.
        document: Place of a document's name; None where there is none.
    """

    text: int
    document: int | None

    def read(self, lines: Sequence[str], name: str, first_line: int, *, drop_invalid: bool) -> Rows:
        """Returns what the lines from `first_line` on hold."""
        del drop_invalid
        last = max(self.text, self.document or 0)
        rows = split_columns(lines, last, name, first_line, example="text_column = 1")
        names = None if self.document is None else [row[self.document] for row in rows]
        return [row[self.text] for row in rows], names, 0


@dataclass(frozen=True)
class JsonColumns:
    """Which keys of an object a line are read.

    Attributes:
        text: Key of the text.
        document: Key of a document's name; empty where there is none.
    """

    text: str
    document: str

    def read(self, lines: Sequence[str], name: str, first_line: int, *, drop_invalid: bool) -> Rows:
        """Returns what the lines from `first_line` on hold."""
        texts: list[str] = []
        names: list[str] = []
        num_invalid = 0
        rows = parse_lines(
            lines, first_line, lambda line, number: self._read_line(line, f"{name}:{number}")
        )
        for index, line in enumerate(lines):
            text, document = rows[index]
            if has_surrogate(line, (text, document)):
                if not drop_invalid:
                    raise surrogate_fault(f"{name}:{first_line + index}")
                text, document = replace_surrogates(text), replace_surrogates(document)
                num_invalid += 1
            texts.append(text)
            names.append(document)
        return texts, names if self.document else None, num_invalid

    def _read_line(self, line: str, where: str) -> tuple[str, str]:
        """Returns text and document's name of a line; a blank line's are blank."""
        if not line.strip():
            return "", ""
        row = parse_object(line, where)
        text = _text_at(row, self.text, where)
        if not self.document:
            return text, ""
        name = row.get(self.document)
        # A number names a document as well.
        is_number = isinstance(name, int) and not isinstance(name, bool)
        return text, str(name) if is_number else _text_at(row, self.document, where)


def _text_at(row: dict[str, Any], key: str, where: str) -> str:
    if key not in row:
        raise _no_column(key, list(row), where)
    value = row[key]
    if value is not None and not isinstance(value, str):
        raise MtkitError(f"{where}: expected text in '{key}', found {kind_of(value)}", _NAME_COLUMN)
    return value or ""


@dataclass(frozen=True)
class TableBlock:
    r"""Lines of tab-separated text or JSON lines.

    Attributes:
        corpus: Which entry of `data.train`.
        first: Number of the first row, from 0.
        content: Lines joined by "\n", as they lie in the file.
        name: Name of the file.
        first_line: Number of the first line in the file, from 1.
        columns: Which columns are read.
    """

    corpus: int
    first: int
    content: bytes
    name: str
    first_line: int
    columns: TsvColumns | JsonColumns

    def decode(self, *, drop_invalid: bool) -> Sentences:
        """Returns its sentences: a line break inside a text parts two."""
        lines, num_invalid = decode_text(
            self.content, self.name, self.first_line, drop_invalid=drop_invalid
        )
        texts, names, num_broken = self.columns.read(
            lines, self.name, self.first_line, drop_invalid=drop_invalid
        )
        return of_texts(list(map(_split, texts)), names, num_invalid + num_broken)


@dataclass(frozen=True)
class ParquetBlock:
    """Rows of a Parquet file.

    Attributes:
        corpus: Which entry of `data.train`.
        first: Number of the first row, from 0.
        name: Name of the file.
        texts: Text of each, as UTF-8.
        names: Name of each one's document; None where there are no names.
    """

    corpus: int
    first: int
    name: str
    texts: tuple[bytes, ...]
    names: tuple[bytes, ...] | None

    def decode(self, *, drop_invalid: bool) -> Sentences:
        """Returns its sentences: a line break inside a text parts two."""
        texts, num_invalid = self._decode_column(self.texts, drop_invalid=drop_invalid)
        names = None
        if self.names is not None:
            names, num_broken = self._decode_column(self.names, drop_invalid=drop_invalid)
            num_invalid += num_broken
        return of_texts(list(map(_split, texts)), names, num_invalid)

    def _decode_column(
        self, values: Sequence[bytes], *, drop_invalid: bool
    ) -> tuple[list[str], int]:
        texts, num_invalid = [], 0
        for index, value in enumerate(values):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as error:
                if not drop_invalid:
                    raise MtkitError(
                        f"{self.name}, row {self.first + index + 1}: byte {error.start + 1} of the "
                        f"text is invalid UTF-8 (0x{error.object[error.start]:02x})",
                        "write the table again with text in UTF-8",
                    ) from error
                texts.append(value.decode(errors="replace"))
                num_invalid += 1
        return texts, num_invalid


def read_table_blocks(
    corpus: TextTableCorpus, reading: ReadSettings
) -> Iterator[TableBlock | ParquetBlock]:
    """Yields the rows of a table in blocks.

    Raises:
        MtkitError: The file is missing, empty or damaged, or lacks a column that is named.
    """
    check_has_content(corpus.path)
    if corpus.format == "parquet":
        yield from _read_parquet_blocks(corpus, reading)
        return
    with LineReader.open(corpus.path) as reader:
        columns = _find_columns(corpus, reader)
        # The line of names, if there is one, is taken.
        first_line, first = reader.num_taken + 1, 0
        while (size := reading.size_at(first)) and (lines := take_block(reader, size)):
            yield TableBlock(
                corpus=reading.index,
                first=first,
                content=join_lines(lines),
                name=reader.name,
                first_line=first_line + first,
                columns=columns,
            )
            first += len(lines)
        if first == 0:
            raise MtkitError(f"{reader.name}: no lines of text in it", "is the file complete?")


def _find_columns(corpus: TextTableCorpus, reader: LineReader) -> TsvColumns | JsonColumns:
    if corpus.format == "json-lines":
        return JsonColumns(str(corpus.text_column), str(corpus.document_column))
    named = [column for column in (corpus.text_column, corpus.document_column) if column]
    places = find_places(named, reader, corpus.path, example="text_column = 1")
    if len(set(places)) != len(places):
        raise MtkitError(
            f"{corpus.path}: text_column and document_column are both column {places[0] + 1}"
        )
    return TsvColumns(places[0], places[1] if corpus.document_column else None)


def _read_parquet_blocks(corpus: TextTableCorpus, reading: ReadSettings) -> Iterator[ParquetBlock]:
    texts: list[bytes] = []
    names: list[bytes] = []
    first = num_bytes = 0

    def block() -> ParquetBlock:
        return ParquetBlock(
            corpus=reading.index,
            first=first,
            name=str(corpus.path),
            texts=tuple(texts),
            names=tuple(names) if corpus.document_column else None,
        )

    for text, name in _read_parquet_rows(corpus):
        if texts and (len(texts) == reading.size_at(first) or num_bytes > BYTES_PER_BLOCK):
            yield block()
            first += len(texts)
            texts, names, num_bytes = [], [], 0
        if not reading.size_at(first):
            break
        texts.append(text)
        names.append(name)
        num_bytes += len(text) + len(name)
    if texts:
        yield block()
    elif first == 0:
        raise MtkitError(f"{corpus.path}: no rows in it", "is it complete?")


def _read_parquet_rows(corpus: TextTableCorpus) -> Iterator[tuple[bytes, bytes]]:
    where = str(corpus.path)
    text, document = str(corpus.text_column), str(corpus.document_column)
    wanted = [column for column in (text, document) if column]
    with open_parquet(corpus.path) as file:
        for column in wanted:
            if column not in file.schema_arrow.names:
                raise _no_column(column, file.schema_arrow.names, where)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=wanted):
            texts = texts_at(batch, (text,), where, _NAME_COLUMN)
            yield from zip(texts, _names_at(batch, document, where), strict=True)


def _names_at(batch: Any, column: str, where: str) -> list[bytes]:
    """Returns each row's name of its document, which may be a whole number; blank without any."""
    import pyarrow as pa  # noqa: PLC0415

    if not column:
        return [b""] * batch.num_rows
    if pa.types.is_integer(batch.schema.field(column).type):
        values = batch.column(column).to_pylist()
        return [b"" if value is None else str(value).encode() for value in values]
    return texts_at(batch, (column,), where, _NAME_COLUMN)


def _no_column(column: str, names: list[str], where: str) -> MtkitError:
    return MtkitError(
        f"{where}: no column '{column}', found columns {list_names(names)}{suggest(column, names)}",
        "correct text_column or document_column",
    )


def _split(text: str) -> list[str]:
    return _LINE_BREAKS.split(text) if "\n" in text or "\r" in text else [text]
