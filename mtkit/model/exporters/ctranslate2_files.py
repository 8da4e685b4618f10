"""The folder of an export: its files, and mtkit's keys in CTranslate2's config."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from mtkit.errors import MtkitError
from mtkit.foreign_files import describe_fault, parse_json, read_file
from mtkit.model.alignment_head import ALIGNMENT_FILE, WORD_ALIGNER_FILE
from mtkit.model.card import CARD_FILE
from mtkit.model.config import CONFIG_FILE, INFERENCE_FILE, WEIGHTS_FILE, VocabSize
from mtkit.recipe.inference import Engine, EngineChoice
from mtkit.text.tokenizer_files import TOKENIZER_FILES

ENGINE_FOLDER = "ctranslate2"
"""Folder of CTranslate2's files in a model folder."""
LENGTH_KEY = "max_tokens"
"""Key of CTranslate2's config.json: the maximum length of source and output."""
SIZES_KEY = "vocab_sizes"
"""The number of source and of target pieces."""
ORIGIN_KEY = "made_from"
"""The digest of the exported model."""
QUANTIZATION_KEY = "quantization"
"""The requested number type."""
EXPORT_AGAIN = "export it again with `mtkit export`, or copy the complete folder again"

MODEL_FILE, _OWN_CONFIG_FILE = "model.bin", "config.json"
_MAX_CONFIG_BYTES = 1 << 20
_MAX_PIECE_BYTES = 512
"""As JSON; a piece usually has up to 16 characters, a recipe's symbol up to 64."""
_VOCABULARY_FILES = tuple(f"{side}_vocabulary.json" for side in ("shared", "source", "target"))

_MODEL_FILES = (
    CARD_FILE,
    CONFIG_FILE,
    INFERENCE_FILE,
    ALIGNMENT_FILE,
    WORD_ALIGNER_FILE,
    *TOKENIZER_FILES,
)
"""Files of an export besides CTranslate2's own."""
_DRAFT = re.compile(r"\.(.+)\.\d+\.draft")
"""The name of a file that `write_atomically` hasn't finished."""


class _Added(BaseModel):
    """An export's additions to CTranslate2's config.json, by the keys above."""

    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    vocab_sizes: tuple[VocabSize, VocabSize]
    made_from: Annotated[str, Field(max_length=64)] = ""
    quantization: Annotated[str, Field(max_length=64)] = ""


def find_engine(folder: Path, name: EngineChoice) -> Engine:
    """Returns the engine for a model folder; `auto` is CTranslate2 for an export, else torch."""
    if name != "auto":
        return name
    is_exported = (folder / ENGINE_FOLDER).is_dir() and not (folder / WEIGHTS_FILE).is_file()
    return "ctranslate2" if is_exported else "torch"


def check_replaced_export(output: Path, model_folder: Path) -> None:
    """Checks that only an older export would be replaced."""
    if output.resolve() in (model_folder.resolve(), *model_folder.resolve().parents):
        raise MtkitError(
            f"{output}: contains the model itself", "choose another folder with --output"
        )
    if not output.exists():
        return
    hint = "choose a new folder with --output, or remove this one first"
    if not output.is_dir():
        raise MtkitError(f"{output}: is not a folder", hint)
    found = sorted(output.iterdir())
    others = [path.name for path in found if not _may_lie_there(path)]
    if others or (found and output / ENGINE_FOLDER not in found):
        named = others[0] if others else found[0].name
        raise MtkitError(
            f"{output}: contains something other than an exported model: {named}", hint
        )


def _may_lie_there(path: Path) -> bool:
    """Checks that an export may have written a file or folder inside its own."""
    if path.name == ENGINE_FOLDER:
        return path.is_dir() and all(map(is_of_export, path.iterdir())) and _is_marked(path)
    # A command that is writing the card, or was killed then, leaves a draft of it.
    draft = _DRAFT.fullmatch(path.name)
    return (draft[1] if draft is not None else path.name) in _MODEL_FILES and path.is_file()


def is_of_export(path: Path) -> bool:
    """Checks that a path is a file that an export writes for CTranslate2."""
    return path.name in (MODEL_FILE, _OWN_CONFIG_FILE, *_VOCABULARY_FILES) and path.is_file()


def _is_marked(folder: Path) -> bool:
    """Checks that `mtkit export` wrote the config in a folder."""
    try:
        config = _read_json(folder / _OWN_CONFIG_FILE)
    except MtkitError:
        return False
    return isinstance(config, dict) and LENGTH_KEY in config


def read_names(folder: Path) -> tuple[int, list[str], list[str]]:
    """Returns the maximum length, and CTranslate2's names of source and target tokens."""
    if not (folder / MODEL_FILE).is_file():
        raise MtkitError(f"{folder}: no CTranslate2 model here (no model.bin)", EXPORT_AGAIN)
    added = _read_added(folder)
    shared, *of_sides = (folder / name for name in _VOCABULARY_FILES)
    source, target = (
        _read_vocabulary(shared if shared.is_file() else of_side, size)
        for of_side, size in zip(of_sides, added.vocab_sizes, strict=True)
    )
    return added.max_tokens, source, target


def read_origin(folder: Path) -> tuple[str, str]:
    """Returns the digest of the exported model, and the export's quantization."""
    added = _read_added(folder)
    return added.made_from, added.quantization


def _read_added(folder: Path) -> _Added:
    path = folder / _OWN_CONFIG_FILE
    try:
        return _Added.model_validate(_read_json(path))
    except ValidationError as error:
        raise MtkitError(
            f"{path}: not written by `mtkit export`, or damaged: {describe_fault(error)}",
            EXPORT_AGAIN,
        ) from error


def _read_vocabulary(path: Path, size: int) -> list[str]:
    names: list[str] = _read_json(path, max_bytes=size * _MAX_PIECE_BYTES)
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or len(names) != size:
        raise MtkitError(f"{path}: damaged: not a list of the model's {size} pieces", EXPORT_AGAIN)
    return names


def _read_json(path: Path, *, max_bytes: int = _MAX_CONFIG_BYTES) -> Any:
    try:
        content = read_file(path, max_bytes=max_bytes, inside=path.parent.parent)
        return parse_json(content, path)
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: missing from the exported model", EXPORT_AGAIN) from error
    except MtkitError as error:
        raise MtkitError(error.message, error.hint or EXPORT_AGAIN) from error
