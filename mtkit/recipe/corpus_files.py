"""Corpus files: formats, compression, paths and columns."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticKnownError

from mtkit.errors import MtkitError
from mtkit.recipe.section import RecipePath
from mtkit.storage import Location, Url, find_location

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""What a file is compressed with, by the ending of its name."""

FORMATS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".txt": "tsv",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".json": "json-lines",
    ".parquet": "parquet",
    ".tmx": "tmx",
    ".zip": "zip",
    ".po": "po",
    ".mo": "mo",
    ".xlf": "xliff",
    ".xliff": "xliff",
}
"""The format of a corpus, by the ending of its name."""

STRING_PAIRS = ("po", "mo", "xliff")
"""Formats of a program's strings with their translations."""
WITHOUT_COLUMNS = ("tmx", "zip", *STRING_PAIRS)
"""Formats with both sides of each pair, and no columns to choose."""
STRING_FORMATS = {
    ".properties": "properties",
    ".ftl": "fluent",
    ".strings": "apple-strings",
    ".arb": "json",
    ".json": "json",
    ".xml": "android",
}
"""Formats of keyed strings in one language."""

NUMBERED_FORMATS = ("tsv", "csv")
"""Formats whose columns have numbers, and names if the first line holds these."""


def _find_location(value: Any, info: ValidationInfo) -> Any:
    """Returns a file's URL, or a path on disk, optionally prefixed with `file:`."""
    if not isinstance(value, str | Path):
        # Of a union pydantic would report each type that it might have been.
        raise PydanticKnownError("string_type")
    if isinstance(value, Url):
        return value
    try:
        found = find_location(str(value))
        if isinstance(found, Url) and found.is_stored:
            # Imported here: few corpora are in a store.
            from mtkit.object_store import check_url  # noqa: PLC0415

            check_url(found)
    except MtkitError as error:
        raise ValueError(f"{error.message}: {error.hint}") from error
    return found if isinstance(found, Url) or info.mode != "json" else str(found)


def _explain_column(value: Any, validate: ValidatorFunctionWrapHandler) -> int | str:
    try:
        column: int | str = validate(value)
    except ValidationError as error:
        # pydantic would report each type that a column might have had.
        raise ValueError(
            "expected a name in quotes or a number, 1 or more, found "
            f"{json.dumps(value, default=str)}"
        ) from error
    return column


FileLocation = Annotated[RecipePath | Url, BeforeValidator(_find_location)]
"""A path relative to `data.data_root`, or a URL: https://, http://, file://, or of an object
store: s3://, az://, abfs://, gs:// or hf://."""
Column = Annotated[Annotated[int, Field(ge=1)] | str, WrapValidator(_explain_column)]


def uncompressed_name(path: Location) -> str:
    """Returns a file's name without the ending of its compression."""
    return path.stem if path.suffix.lower() in COMPRESSIONS else path.name


def ending_of(path: Location) -> str:
    """Returns the ending of a file's name, without that of its compression, in lower case."""
    return Path(uncompressed_name(path)).suffix.lower()


def format_of(path: Location) -> str:
    """Returns a corpus's format by its name's ending, compressed or not; empty for others."""
    return FORMATS.get(ending_of(path), "")
