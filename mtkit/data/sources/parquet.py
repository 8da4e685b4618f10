"""Parquet files, and tables of Arrow."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtkit.data.sources.blocks import Block, ReadSettings, group_rows
from mtkit.data.sources.columns import TRANSLATION, Columns
from mtkit.data.sources.lines import check_has_content
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus

_BUFFER_BYTES = 1 << 20
"""Read of a column at a time; without it, all of a row group is."""
_ROWS_AT_ONCE = 4_096


def read_parquet_blocks(corpus: PairedFileCorpus, reading: ReadSettings) -> Iterator[Block]:
    """Yields the rows of a Parquet file in blocks.

    Raises:
        MtkitError: The file is missing, empty or damaged, or lacks the columns.
    """
    check_has_content(corpus.path)
    columns = Columns.of(corpus, reading)
    yield from group_rows(_read_rows(corpus, columns), str(corpus.path), reading)


def _read_rows(corpus: PairedFileCorpus, columns: Columns) -> Iterator[tuple[bytes, bytes]]:
    name = str(corpus.path)
    with open_parquet(corpus.path) as file:
        ways = find_columns(file.schema_arrow, columns, name)
        wanted = [".".join(way) for way in ways]
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=wanted):
            sides = [texts_at(batch, way, name) for way in ways]
            yield from zip(*sides, strict=True)


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Opens a Parquet file; reads little of it at a time.

    Raises:
        MtkitError: It is damaged, also as the block shows that reads it.
    """
    # Imported here: they take a while, and most corpora are text.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with (
            # It takes no path that is invalid UTF-8.
            pa.OSFile(os.fsencode(path), "rb") as opened,
            pq.ParquetFile(opened, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            yield file
    except (pa.ArrowException, OSError) as error:
        # With a number, it is the system that fails, not the file.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise MtkitError(
            f"{path}: damaged Parquet file: {error}", "download or write it again"
        ) from error


def find_columns(
    schema: Any, columns: Columns, where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the way to each side in tables of this schema.

    Raises:
        MtkitError: There are no such columns.
    """
    import pyarrow as pa  # noqa: PLC0415

    index = schema.get_field_index(TRANSLATION)
    kind = schema.field(index).type if index >= 0 else None
    inside = [field.name for field in kind] if kind and pa.types.is_struct(kind) else []
    return columns.find(schema.names, inside, where)


def texts_at(
    table: Any,
    way: tuple[str, ...],
    where: str,
    hint: str = "choose other columns with source_column and target_column",
) -> list[bytes]:
    """Returns one side of a table or batch of Arrow as UTF-8, unchecked; what is null is blank.

    Raises:
        MtkitError: The column holds no text.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    column = table.column(way[0])
    for field in way[1:]:
        column = pc.struct_field(column, field)
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_null(kind):
        return [b""] * len(column)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()):
        raise MtkitError(
            f"{where}: expected text in '{way[-1]}', found {kind}",
            hint,
        )
    # As bytes, invalid UTF-8 is reported by row later on.
    return [text or b"" for text in column.cast(pa.large_binary()).to_pylist()]
