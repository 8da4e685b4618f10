"""Texts, or pairs of texts, with labels: tab-separated text, JSON lines, Parquet."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mtkit.data.sources.blocks import LabelledRow, ReadSettings, as_one_line
from mtkit.data.sources.columns import list_names
from mtkit.data.sources.json_lines import has_surrogate, kind_of, parse_object, surrogate_fault
from mtkit.data.sources.lines import (
    LineReader,
    check_has_content,
    decode_text,
    join_lines,
    parse_lines,
    take_block,
)
from mtkit.data.sources.parquet import open_parquet, texts_at
from mtkit.data.sources.planted_faults import read_planted
from mtkit.data.sources.tsv import find_places, split_columns
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.corpora import TrainingKeys
from mtkit.recipe.text_corpora import ClassifierCorpus, LabelledCorpus, PlantedCorpus

_ROWS_AT_ONCE = 4_096
_NAME_COLUMN = "name other columns with text_column, second_column and label_column"


def read_labelled(corpus: ClassifierCorpus) -> Iterator[LabelledRow]:
    """Yields a corpus's rows in order, in constant memory; blank lines are left out.

    Raises:
        MtkitError: The file is missing, empty or damaged, lacks a column that is named, or has a
            row without a label or of invalid UTF-8.
    """
    if isinstance(corpus, PlantedCorpus):
        yield from read_planted(corpus)
        return
    check_has_content(corpus.path)
    max_rows = corpus.max_pairs if isinstance(corpus, TrainingKeys) else None
    rows = _read_parquet(corpus) if corpus.format == "parquet" else _read_lines(corpus, max_rows)
    is_read = False
    for count, (number, values) in enumerate(rows):
        if max_rows is not None and count >= max_rows:
            break
        is_read = True
        if not any(value.strip() for value in values):
            continue
        text, *second, label = map(as_one_line, values)
        if not label.strip():
            raise MtkitError(f"{name_row(corpus, number)}: no label", "label it, or take it out")
        yield LabelledRow(text, second[0] if second else "", label.strip(), number)
    if not is_read:
        raise MtkitError(f"{corpus.path}: no rows in it", "is the file complete?")


def name_row(corpus: ClassifierCorpus, number: int) -> str:
    """Returns file and line, or row, for a message."""
    if isinstance(corpus, PlantedCorpus):
        return f"{corpus.source}:{number}"
    return f"{corpus.path}{', row ' if corpus.format == 'parquet' else ':'}{number}"


def _read_lines(
    corpus: LabelledCorpus, max_rows: int | None
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields number and columns of each line."""
    reading = ReadSettings(0, _ROWS_AT_ONCE, max_rows, ("", ""))
    with LineReader.open(corpus.path) as reader:
        parse = _choose_parser(corpus, reader)
        first_line, first = reader.num_taken + 1, 0
        while (size := reading.size_at(first)) and (lines := take_block(reader, size)):
            text, _ = decode_text(
                join_lines(lines), reader.name, first_line + first, drop_invalid=False
            )
            yield from enumerate(parse(text, first_line + first), start=first_line + first)
            first += len(lines)


def _choose_parser(
    corpus: LabelledCorpus, reader: LineReader
) -> Callable[[Sequence[str], int], list[Sequence[str]]]:
    """Returns what finds the columns of lines, given the number of the first of them."""
    if corpus.format == "json-lines":
        keys = list(map(str, corpus.columns))
        return lambda lines, first_line: list(
            parse_lines(
                lines,
                first_line,
                lambda line, number: _read_object(line, keys, f"{reader.name}:{number}"),
            )
        )
    example = "text_column = 1, label_column = 2"
    places = find_places(corpus.columns, reader, corpus.path, example=example)
    if len(set(places)) != len(places):
        raise MtkitError(f"{corpus.path}: two of its columns are the same", _NAME_COLUMN)

    def parse(lines: Sequence[str], first_line: int) -> list[Sequence[str]]:
        rows = split_columns(lines, max(places), reader.name, first_line, example=example)
        return [[row[place] for place in places] for row in rows]

    return parse


def _read_object(line: str, keys: Sequence[str], where: str) -> list[str]:
    if not line.strip():
        return [""] * len(keys)
    row = parse_object(line, where)
    *texts, label = (_value_at(row, key, where) for key in keys)
    for key, value in zip(keys, texts, strict=False):
        if value is not None and not isinstance(value, str):
            raise MtkitError(
                f"{where}: expected text in '{key}', found {kind_of(value)}", _NAME_COLUMN
            )
    found = [str(value or "") for value in texts] + [_write_label(label, keys[-1], where)]
    if has_surrogate(line, found):
        raise surrogate_fault(where)
    return found


def _value_at(row: dict[str, Any], key: str, where: str) -> Any:
    if key not in row:
        raise _no_column(key, list(row), where)
    return row[key]


def _write_label(value: Any, key: str, where: str) -> str:
    """Returns a label as text: a whole number and true or false are labels as well."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    raise MtkitError(
        f"{where}: expected a word or a whole number in '{key}', found {kind_of(value)}",
        _NAME_COLUMN,
    )


def _read_parquet(corpus: LabelledCorpus) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields number and columns of each row."""
    where, number = str(corpus.path), 0
    keys = list(map(str, corpus.columns))
    with open_parquet(corpus.path) as file:
        for key in keys:
            if key not in file.schema_arrow.names:
                raise _no_column(key, file.schema_arrow.names, where)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=keys):
            texts = [texts_at(batch, (key,), where, _NAME_COLUMN) for key in keys[:-1]]
            labels = [
                _write_label(value, keys[-1], where).encode()
                for value in batch.column(keys[-1]).to_pylist()
            ]
            for values in zip(*texts, labels, strict=True):
                number += 1
                try:
                    yield number, [value.decode() for value in values]
                except UnicodeDecodeError as error:
                    raise MtkitError(
                        f"{name_row(corpus, number)}: byte {error.start + 1} of the text is "
                        f"invalid UTF-8 (0x{error.object[error.start]:02x})",
                        "write the table again with text in UTF-8",
                    ) from error


def _no_column(column: str, names: list[str], where: str) -> MtkitError:
    return MtkitError(
        f"{where}: no column '{column}', found columns {list_names(names)}{suggest(column, names)}",
        _NAME_COLUMN,
    )
