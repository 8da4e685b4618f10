"""What an export adds to CTranslate2's own files, read again: length, sizes, names, origin."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PositiveInt, ValidationError

from mtkit.errors import MtkitError

LENGTH_KEY = "max_tokens"
"""Under this key CTranslate2's config.json tells the greatest length of source and output."""
SIZES_KEY = "vocab_sizes"
"""And under this one the number of source and of target pieces."""
ORIGIN_KEY = "made_from"
"""Under this one the digest of the model that was exported; absent in older exports."""
QUANTIZATION_KEY = "quantization"
"""And under this one the number type that was asked for."""
EXPORT_AGAIN = "make it anew with `mtkit export`, or copy the whole folder again"

_MODEL_FILE, _CONFIG_FILE = "model.bin", "config.json"
_VOCABULARY_FILES = tuple(f"{side}_vocabulary.json" for side in ("shared", "source", "target"))


class _Added(BaseModel):
    """What an export adds to CTranslate2's config.json, by the keys above."""

    max_tokens: PositiveInt
    vocab_sizes: tuple[PositiveInt, PositiveInt]
    made_from: str = ""
    quantization: str = ""


def holds_export(folder: Path) -> bool:
    """Returns whether a folder is one that an export filled, and holds nothing else."""
    return folder.is_dir() and all(map(_is_of_export, folder.iterdir())) and _is_marked(folder)


def _is_of_export(path: Path) -> bool:
    return path.name in (_MODEL_FILE, _CONFIG_FILE, *_VOCABULARY_FILES) and path.is_file()


def _is_marked(folder: Path) -> bool:
    """Returns whether the config in a folder is one that `mtkit export` wrote."""
    try:
        config = _read_json(folder / _CONFIG_FILE)
    except MtkitError:
        return False
    return isinstance(config, dict) and LENGTH_KEY in config


def read_names(folder: Path) -> tuple[int, list[str], list[str]]:
    """Returns the greatest length, and the source's and target's names of tokens for CTranslate2.

    Raises:
        MtkitError: A file is missing or damaged.
    """
    if not (folder / _MODEL_FILE).is_file():
        raise MtkitError(f"{folder}: no model of CTranslate2's here (no model.bin)", EXPORT_AGAIN)
    added = _read_added(folder)
    shared, *of_sides = (folder / name for name in _VOCABULARY_FILES)
    source, target = (
        _read_vocabulary(shared if shared.is_file() else of_side, size)
        for of_side, size in zip(of_sides, added.vocab_sizes, strict=True)
    )
    return added.max_tokens, source, target


def read_origin(folder: Path) -> tuple[str, str]:
    """Returns the digest of the model that an export was made from, and its quantization.

    Both are empty where an earlier version made it.

    Raises:
        MtkitError: The file is missing or damaged.
    """
    added = _read_added(folder)
    return added.made_from, added.quantization


def _read_added(folder: Path) -> _Added:
    path = folder / _CONFIG_FILE
    try:
        return _Added.model_validate(_read_json(path))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(step) for step in fault["loc"])
        raise MtkitError(
            f"{path}: not written by `mtkit export`, or damaged: {key}: {fault['msg']}",
            EXPORT_AGAIN,
        ) from error


def _read_vocabulary(path: Path, size: int) -> list[str]:
    names: list[str] = _read_json(path)
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or len(names) != size:
        raise MtkitError(f"{path}: damaged: no list of the model's {size} pieces", EXPORT_AGAIN)
    return names


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: missing from the exported model", EXPORT_AGAIN) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MtkitError(f"{path}: damaged, no JSON: {error}", EXPORT_AGAIN) from error
