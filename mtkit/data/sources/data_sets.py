"""Corpora that the `datasets` library can stream: data sets on the hub, local folders."""

from collections.abc import Iterator
from pathlib import Path

from mtkit.data.sources.blocks import Block, ReadSettings, group_rows
from mtkit.data.sources.columns import Columns
from mtkit.data.sources.parquet import find_columns, texts_at
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import HubCorpus

_ROWS_AT_ONCE = 1_024
_FORMATS = ("arrow", "cache", "csv", "json", "parquet", "text")
"""Readers of the library's that read tables and nothing else; `pandas` unpickled what it found,
and with that ran it, until the library switched that off."""


def read_data_set_blocks(corpus: HubCorpus, reading: ReadSettings) -> Iterator[Block]:
    """Yields the rows of a data set in blocks.

    Raises:
        MtkitError: The data set can't be found, reached or read, or lacks the columns.
    """
    columns = Columns.of(corpus, reading)
    yield from group_rows(_read_rows(corpus, columns), _name(corpus), reading)


def check_data_set(corpus: HubCorpus) -> None:
    """Returns unless the data set is meant to be a local folder and isn't there; reads no network.

    Raises:
        MtkitError: There is no such folder, or no file in it.
    """
    folder = Path(corpus.dataset)
    if folder.is_absolute() and not folder.is_dir():
        raise MtkitError(
            f"{folder}: no such folder",
            "the path is relative to data_root; to change it: --set data.data_root=FOLDER",
        )
    if folder.is_dir() and not any(path.is_file() for path in folder.rglob("*")):
        raise MtkitError(f"{folder}: no files in it", "is it complete?")


def _read_rows(corpus: HubCorpus, columns: Columns) -> Iterator[tuple[bytes, bytes]]:
    # Imported here: the library takes a second, and most recipes read files.
    import datasets  # noqa: PLC0415

    name = _name(corpus)
    num_rows = 0
    try:
        builder = datasets.load_dataset_builder(corpus.dataset, corpus.configuration)
        if builder.name not in _FORMATS:
            raise MtkitError(
                f"{name}: files of type '{builder.name}' can't be read",
                "convert it to Parquet, JSON lines or CSV files, or to two text files",
            )
        data_set = builder.as_streaming_dataset(split=corpus.split)
        for table in data_set.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
            ways = find_columns(table.schema, columns, name)
            sides = [texts_at(table, way, name) for way in ways]
            yield from zip(*sides, strict=True)
            num_rows += table.num_rows
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        where = f", after row {num_rows:,}" if num_rows else ""
        raise MtkitError(
            f"{name}{where}: {error}",
            "check its name, configuration and split, and that this machine can reach the hub; "
            "or use two text files instead: source = ..., target = ...",
        ) from error


def _name(corpus: HubCorpus) -> str:
    return f"data set {corpus.dataset} ({corpus.configuration}, {corpus.split})"
