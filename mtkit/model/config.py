"""The config and the decoding defaults of a model folder; torch isn't loaded.

config.json     the network's shape, languages, vocabulary sizes, special tokens' ids
inference.json  decoding defaults
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, PositiveInt, ValidationError

from mtkit.errors import MtkitError, shorten
from mtkit.files import read_json, write_atomically
from mtkit.foreign_files import describe_fault, parse_json, read_file
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.section import Section
from mtkit.text.token_ids import BOS, EOS, PAD, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import MAX_PIECES

FORMAT_VERSION = 2
"""Raised when a folder that this version writes can't be read by older ones."""

CONFIG_FILE = "config.json"
INFERENCE_FILE = "inference.json"
WEIGHTS_FILE = "model.safetensors"

_MAX_BYTES = 1 << 20

VocabSize = Annotated[int, Field(ge=1, le=MAX_PIECES)]
SectionKind = TypeVar("SectionKind", bound=BaseModel)


class SpecialTokens(Section):
    """Ids that the network was trained with."""

    pad: int = PAD
    """Padding."""
    unk: int = UNK
    """Unknown piece."""
    bos: int = BOS
    """`<s>`, which begins every target."""
    eos: int = EOS
    """`</s>`, which ends every source and target."""


class ModelConfig(Section):
    """All that a model is built from and used by, but for its weights and tokenizer."""

    format_version: PositiveInt = FORMAT_VERSION
    """Version of the folder's layout."""
    recipe: str
    """Name of the recipe that it was trained with."""
    source_language: str
    """Language translated from."""
    target_language: str
    """Language translated into."""
    source_vocab_size: VocabSize
    """Number of source pieces."""
    target_vocab_size: VocabSize
    """Number of target pieces."""
    special_tokens: SpecialTokens = Field(default_factory=SpecialTokens)
    """Ids of the special tokens."""
    model: Model
    """The recipe's section."""

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: SubwordTokenizer) -> "ModelConfig":
        """Returns the config of a recipe's model, for the vocabularies of a tokenizer."""
        return cls(
            recipe=recipe.name,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
            source_vocab_size=tokenizer.source_vocab_size,
            target_vocab_size=tokenizer.target_vocab_size,
            model=recipe.model,
        )

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Number of source and of target pieces."""
        return self.source_vocab_size, self.target_vocab_size


@dataclass(frozen=True)
class OpenedFolder:
    """A model folder but for its weights."""

    tokenizer: SubwordTokenizer
    settings: Inference
    config: ModelConfig


def open_model_folder(folder: Path) -> OpenedFolder:
    """Returns all of a model folder but its weights.

    Raises:
        MtkitError: There is no model, a file of it is missing or damaged, or two don't fit.
    """
    settings = read_settings(folder)
    config = read_config(folder)
    tokenizer = SubwordTokenizer.load(folder)
    _check_vocabulary(folder, config, tokenizer)
    return OpenedFolder(tokenizer, settings, config)


def read_settings(folder: Path) -> Inference:
    """Returns a model folder's decoding defaults.

    Raises:
        MtkitError: There is no model, or the file is damaged.
    """
    if not (folder / CONFIG_FILE).is_file():
        inside = folder / "model"
        raise MtkitError(
            f"{folder}: no model here (no {CONFIG_FILE})",
            f"there is one in it: {inside}"
            if (inside / CONFIG_FILE).is_file()
            else "train one with `mtkit train`, or let `mtkit run` do everything that is missing",
        )
    return _read_section(folder / INFERENCE_FILE, Inference)


def write_section(path: Path, section: BaseModel) -> None:
    """Writes a section as a JSON file."""
    content = json.dumps(
        section.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False
    )
    write_atomically(path, content + "\n")


def _read_section(path: Path, kind: type[SectionKind]) -> SectionKind:
    if not path.is_file():
        raise MtkitError(f"{path}: missing from the model folder", "copy the whole folder again")
    content = read_file(path, max_bytes=_MAX_BYTES)
    # Faults of JSON itself are reported in its words.
    parse_json(content, path)
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise MtkitError(
            f"{path}: {describe_fault(error)}", "copy the whole folder again, or train it again"
        ) from error


def read_config(folder: Path) -> ModelConfig:
    """Returns a model folder's config.

    Raises:
        MtkitError: It is missing or damaged, or of a later format.
    """
    path = folder / CONFIG_FILE
    version = read_json(path, max_bytes=_MAX_BYTES).get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise MtkitError(
            f"{path}: format {shorten(str(version), 20)}, but this mtkit reads up to "
            f"{FORMAT_VERSION}",
            "pip install --upgrade mtkit",
        )
    config = _read_section(path, ModelConfig)
    if config.special_tokens != SpecialTokens():
        raise MtkitError(
            f"{path}: special tokens {config.special_tokens.model_dump()}, "
            f"but this mtkit knows only {SpecialTokens().model_dump()}"
        )
    return config


def _check_vocabulary(folder: Path, config: ModelConfig, tokenizer: SubwordTokenizer) -> None:
    for side, found, expected in (
        ("source", tokenizer.source_vocab_size, config.source_vocab_size),
        ("target", tokenizer.target_vocab_size, config.target_vocab_size),
    ):
        if found != expected:
            raise MtkitError(
                f"{folder}: the tokenizer has {found} {side} pieces, but the model {expected}",
                "the tokenizer must be the one that the model was trained with",
            )
