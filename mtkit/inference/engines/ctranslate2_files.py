"""What an export adds to CTranslate2's own files, read again: `max_tokens`, sizes, names."""

import json
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError

LENGTH_KEY = "max_tokens"
"""Under this key CTranslate2's config.json tells the greatest length of source and output."""
SIZES_KEY = "vocab_sizes"
"""And under this one the number of source and of target pieces."""
EXPORT_AGAIN = "make it anew with `mtkit export`, or copy the whole folder again"


def read_names(folder: Path) -> tuple[int, list[str], list[str]]:
    """Returns the greatest length, and the source's and target's names of tokens for CTranslate2.

    Raises:
        MtkitError: A file is missing or damaged.
    """
    if not (folder / "model.bin").is_file():
        raise MtkitError(f"{folder}: no model of CTranslate2's here (no model.bin)", EXPORT_AGAIN)
    path = folder / "config.json"
    config = _read_json(path)
    if not isinstance(config, dict) or not {LENGTH_KEY, SIZES_KEY} <= config.keys():
        raise MtkitError(f"{path}: not written by `mtkit export`", EXPORT_AGAIN)
    shared = folder / "shared_vocabulary.json"
    source, target = (
        _read_vocabulary(shared if shared.is_file() else folder / f"{side}_vocabulary.json", size)
        for side, size in zip(("source", "target"), config[SIZES_KEY], strict=True)
    )
    return config[LENGTH_KEY], source, target


def _read_vocabulary(path: Path, size: int) -> list[str]:
    names = _read_json(path)
    if not isinstance(names, list) or len(names) != size:
        raise MtkitError(f"{path}: damaged: no list of the model's {size} pieces", EXPORT_AGAIN)
    return names


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: missing from the exported model", EXPORT_AGAIN) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MtkitError(f"{path}: damaged, no JSON: {error}", EXPORT_AGAIN) from error
