"""Files that corpora lie in: their formats, compression, paths and columns."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from mtkit.recipe.section import RecipePath

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""What a file is compressed with, by the ending of its name."""

FileFormat = Literal["tsv", "json-lines", "parquet", "tmx", "zip"]
FORMATS: dict[str, FileFormat] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".json": "json-lines",
    ".parquet": "parquet",
    ".tmx": "tmx",
    ".zip": "zip",
}


def _refuse_url(value: Any) -> Any:
    if _URL.match(str(value)):
        raise ValueError(f"{value} is a URL, but files are read from disk: download it first")
    return value


def _explain_column(value: Any, validate: ValidatorFunctionWrapHandler) -> int | str:
    try:
        column: int | str = validate(value)
    except ValidationError as error:
        # pydantic would tell of each type that a column might have had.
        raise ValueError(
            "expected a name in quotes or a number, 1 or more, found "
            f"{json.dumps(value, default=str)}"
        ) from error
    return column


LocalPath = Annotated[RecipePath, BeforeValidator(_refuse_url)]
Column = Annotated[Annotated[int, Field(ge=1)] | str, WrapValidator(_explain_column)]


def uncompressed_name(path: Path) -> str:
    """Returns a file's name without the ending that tells its compression."""
    return path.stem if path.suffix.lower() in COMPRESSIONS else path.name
