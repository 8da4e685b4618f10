"""Parquet files, and data sets that the `datasets` library streams, as Arrow tables."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtkit.data.sources.lines import check_has_content
from mtkit.data.sources.tables import NUMBERED, TRANSLATION, ColumnPath, TableColumns
from mtkit.data.sources.values import RawRows, ValueSource
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import HubCorpus
from mtkit.storage import Location, open_location

_BUFFER_BYTES = 1 << 20
"""Bytes of a column read at a time; without it, a whole row group is read."""
_ROWS_AT_ONCE = 4_096
_STREAMED_ROWS = 1_024
_FORMATS = ("arrow", "cache", "csv", "json", "parquet", "text")
"""The library's readers that only read tables. `pandas` unpickled what it found, and so ran it,
until the library disabled that."""


@contextmanager
def open_parquet(path: Location, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens a Parquet file; reads little of it at a time."""
    # Imported here: they take a while, and most corpora are text.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    check_has_content(path)
    name = str(path)
    try:
        with (
            open_location(path) as opened,
            pq.ParquetFile(opened, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            paths = [".".join(way) for way in _find_columns(file.schema_arrow, wanted, name)]
            tables = file.iter_batches(_ROWS_AT_ONCE, columns=paths)
            yield ValueSource(_read_rows(tables, wanted, name), tuple(wanted.columns), name)
    except (pa.ArrowException, OSError) as error:
        # With a number, the system failed, not the file.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise MtkitError(
            f"{path}: damaged Parquet file: {error}", "download or write it again"
        ) from error


@contextmanager
def open_data_set(corpus: HubCorpus, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens a data set on a hub or in a local folder."""
    name = f"data set {corpus.dataset} ({corpus.configuration}, {corpus.split})"
    yield ValueSource(_stream(corpus, wanted, name), tuple(wanted.columns), name)


def _stream(corpus: HubCorpus, wanted: TableColumns, name: str) -> RawRows:
    # Imported here: the library takes a second, and most recipes read files.
    import datasets  # noqa: PLC0415

    num_rows = 0
    try:
        builder = datasets.load_dataset_builder(corpus.dataset, corpus.configuration)
        if builder.name not in _FORMATS:
            raise MtkitError(
                f"{name}: files of type '{builder.name}' can't be read",
                "convert it to Parquet, JSON lines or CSV files, or to two text files",
            )
        if builder.name == "csv":
            # "None", "null" and "NA" are sentences, too.
            builder.config.na_filter = False
        data_set = builder.as_streaming_dataset(split=corpus.split)
        for table in data_set.with_format("arrow").iter(batch_size=_STREAMED_ROWS):
            yield from _read_rows([table], wanted, name)
            num_rows += table.num_rows
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        where = f", after row {num_rows:,}" if num_rows else ""
        raise MtkitError(
            f"{name}{where}: {error}",
            "check its name, configuration and split, that data.data_root is the folder "
            "that holds it if it is on this machine, or else that the hub can be reached; "
            "or use two text files instead: source = ..., target = ...",
        ) from error


def check_data_set(corpus: HubCorpus) -> None:
    """Checks that a data set in a local folder is there; doesn't use the network."""
    folder = Path(corpus.dataset)
    if folder.is_absolute() and not folder.is_dir():
        raise MtkitError(
            f"{folder}: no such folder",
            "the path is relative to data_root; to change it: --set data.data_root=FOLDER",
        )
    if folder.is_dir() and not any(path.is_file() for path in folder.rglob("*")):
        raise MtkitError(f"{folder}: no files in it", "is it complete?")


def _read_rows(tables: Iterable[Any], wanted: TableColumns, name: str) -> RawRows:
    """Yields the values of each row of Arrow tables or batches, as unchecked UTF-8."""
    for table in tables:
        paths = _find_columns(table.schema, wanted, name)
        columns = zip(wanted.columns, paths, strict=True)
        yield from zip(
            *(_values_at(table, path, column, wanted, name) for column, path in columns),
            strict=True,
        )


def _find_columns(schema: Any, wanted: TableColumns, name: str) -> tuple[ColumnPath, ...]:
    import pyarrow as pa  # noqa: PLC0415

    index = schema.get_field_index(TRANSLATION)
    kind = schema.field(index).type if index >= 0 else None
    inside = [field.name for field in kind] if kind and pa.types.is_struct(kind) else []
    return wanted.find(schema.names, inside, name)


def _values_at(
    table: Any, path: ColumnPath, column: str, wanted: TableColumns, name: str
) -> list[bytes]:
    """Returns the values of a column as UTF-8; null is blank."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    values = table.column(path[0])
    for field in path[1:]:
        values = pc.struct_field(values, field)
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        # As bytes, because invalid UTF-8 is reported by row later.
        return [text or b"" for text in values.cast(pa.large_binary()).to_pylist()]
    is_number = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if pa.types.is_null(kind) or (is_number and column in NUMBERED):
        texts = (wanted.as_text(value, column, path[-1], name) for value in values.to_pylist())
        return [text.encode() for text in texts]
    raise MtkitError(f"{name}: expected text in '{path[-1]}', found {kind}", wanted.hint)
