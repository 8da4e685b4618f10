"""The folder of an export: its files, and mtkit's key in CTranslate2's config."""

from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.files import find_drafted, parse_json, read_file
from mtkit.model.alignment_head import ALIGNMENT_FILE, WORD_ALIGNER_FILE
from mtkit.model.card import CARD_FILE
from mtkit.model.config import CONFIG_FILE, INFERENCE_FILE
from mtkit.text.tokenizer_files import TOKENIZER_FILES

ENGINE_FOLDER = "ctranslate2"
"""Folder of CTranslate2's files in an export."""
LENGTH_KEY = "max_tokens"
"""mtkit's key of CTranslate2's config.json: the maximum length of source and output."""
_MODEL_FILE, OWN_CONFIG_FILE = "model.bin", "config.json"
_MAX_CONFIG_BYTES = 1 << 20
VOCABULARY_FILES = tuple(f"{side}_vocabulary.json" for side in ("shared", "source", "target"))

_MODEL_FILES = (
    CARD_FILE,
    CONFIG_FILE,
    INFERENCE_FILE,
    ALIGNMENT_FILE,
    WORD_ALIGNER_FILE,
    *TOKENIZER_FILES,
)
"""Files of an export besides CTranslate2's own."""


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
    others = [path.name for path in found if not _is_from_export(path)]
    if others or (found and output / ENGINE_FOLDER not in found):
        named = others[0] if others else found[0].name
        raise MtkitError(
            f"{output}: contains something other than an exported model: {named}", hint
        )


def _is_from_export(path: Path) -> bool:
    """Checks that an export may have written a file or folder inside its own."""
    if path.name == ENGINE_FOLDER:
        return path.is_dir() and all(map(_is_of_export, path.iterdir())) and _is_marked(path)
    # A command that is writing the card, or was killed meanwhile, leaves a draft.
    return (find_drafted(path.name) or path.name) in _MODEL_FILES and path.is_file()


def _is_of_export(path: Path) -> bool:
    """Checks that a path is a file that an export writes for CTranslate2."""
    return path.name in (_MODEL_FILE, OWN_CONFIG_FILE, *VOCABULARY_FILES) and path.is_file()


def _is_marked(folder: Path) -> bool:
    """Checks that `mtkit export` wrote the config in a folder."""
    path = folder / OWN_CONFIG_FILE
    try:
        content = read_file(path, max_bytes=_MAX_CONFIG_BYTES, inside=folder.parent)
        config = parse_json(content, path)
    except (FileNotFoundError, MtkitError):
        return False
    return isinstance(config, dict) and LENGTH_KEY in config
