"""The config and the decoding defaults of a model folder, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import (
    BaseModel,
    Field,
    PositiveInt,
    model_validator,
)

from mtkit.errors import MtkitError
from mtkit.files import (
    as_json_text,
    check_format,
    parse_json,
    read_file,
    read_json,
    reporting_faults,
    write_atomically,
)
from mtkit.model.parameters import Shape, list_shapes
from mtkit.recipe.inference import Inference
from mtkit.recipe.masking import Masking
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ENCODER_DECODERS, MAX_LABELS, ClassifierKind, Objective
from mtkit.recipe.parsing import Linearization, Parsing
from mtkit.recipe.section import Section
from mtkit.text.token_ids import BOS, EOS, PAD, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import MAX_PIECES

if TYPE_CHECKING:
    from mtkit.recipe import Recipe

FORMAT_VERSION = 4
"""Raised if other versions can't read the folders that this version writes, or the reverse."""

CONFIG_FILE = "config.json"
INFERENCE_FILE = "inference.json"
WEIGHTS_FILE = "model.safetensors"
ADAPTER_FILE = "adapter.json"
ADAPTER_WEIGHTS_FILE = "adapter.safetensors"
"""An adapter's files instead of its weights: `mtkit/model/adapter.py`."""

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


class ClassifierConfig(Section):
    """A classifier's language model and labels."""

    kind: ClassifierKind
    """The kind of language model that it is built on."""
    labels: Annotated[tuple[str, ...], Field(min_length=2, max_length=MAX_LABELS)]
    """The labels, sorted: the first one's logit is the first."""
    has_pairs: bool
    """Whether it labels pairs of texts."""
    max_tokens: Annotated[int, Field(ge=8)]
    """Maximum input length with `<s>`; longer inputs are cut, in pairs the longer text first."""


class ModelConfig(Section):
    """Everything needed to build and use a model, except its weights and tokenizer."""

    format_version: PositiveInt = FORMAT_VERSION
    """Version of the folder's layout."""
    recipe: str
    """Name of the recipe that it was trained with."""
    objective: Objective = "translation"
    """What it was trained for."""
    next_sentence: bool = True
    """Whether a masked language model predicts whether a text's second part follows its first."""
    classifier: ClassifierConfig | None = None
    """A classifier's further settings; None for any other model."""
    parsing: Parsing | None = None
    """What a parser's trees look like as targets; None for any other model."""
    source_language: str
    """Language translated from; a language model's own."""
    target_language: str
    """Language translated into; a language model's own."""
    source_vocab_size: VocabSize
    """Number of source pieces."""
    target_vocab_size: VocabSize
    """Number of target pieces."""
    special_tokens: SpecialTokens = Field(default_factory=SpecialTokens)
    """Ids of the special tokens."""
    model: Model
    """The recipe's section."""

    @classmethod
    def of(
        cls, recipe: "Recipe", tokenizer: SubwordTokenizer, labels: Sequence[str] = ()
    ) -> "ModelConfig":
        """Returns the config of a recipe's model; `labels` are a classifier's, sorted."""
        classifier = None
        if recipe.objective == "classification":
            classifier = ClassifierConfig(
                kind=recipe.classification.kind,
                labels=tuple(labels),
                has_pairs=recipe.data.has_pairs_of_texts,
                max_tokens=recipe.data.block_tokens,
            )
        return cls(
            recipe=recipe.name,
            objective=recipe.objective,
            next_sentence=(recipe.training.masking or Masking()).next_sentence,
            classifier=classifier,
            parsing=None
            if recipe.data.linearization is None
            else Parsing(linearization=recipe.data.linearization),
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
            source_vocab_size=tokenizer.source_vocab_size,
            target_vocab_size=tokenizer.target_vocab_size,
            model=recipe.model,
        )

    @model_validator(mode="after")
    def _a_language_model_has_one_vocabulary(self) -> "ModelConfig":
        if self.objective != "translation" and len(set(self.vocab_sizes)) > 1:
            raise ValueError(
                f"a language model has one vocabulary, but source_vocab_size = "
                f"{self.source_vocab_size} and target_vocab_size = {self.target_vocab_size}"
            )
        return self

    @model_validator(mode="after")
    def _a_classifier_has_labels(self) -> "ModelConfig":
        if (self.objective == "classification") != (self.classifier is not None):
            raise ValueError('objective = "classification" and the key classifier go together')
        return self

    @property
    def has_encoder_and_decoder(self) -> bool:
        """Whether the network has both, as a translator's usually has."""
        is_translator = self.objective in ENCODER_DECODERS
        return is_translator and self.model.architecture == "encoder-decoder"

    @property
    def linearization(self) -> Linearization | None:
        """The tree format of a parser's targets; None for other models."""
        return None if self.parsing is None else self.parsing.linearization

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Number of source and of target pieces."""
        return self.source_vocab_size, self.target_vocab_size

    def list_shapes(self) -> dict[str, Shape]:
        """Returns the shape of each weight of the network, by name."""
        return list_shapes(
            self.model,
            *self.vocab_sizes,
            objective=self.objective,
            next_sentence=self.next_sentence,
            classifier=("masked-lm", 0)
            if self.classifier is None
            else (self.classifier.kind, len(self.classifier.labels)),
        )


@dataclass(frozen=True)
class OpenedFolder:
    """A model folder without its weights."""

    tokenizer: SubwordTokenizer
    settings: Inference
    config: ModelConfig


def open_model_folder(folder: Path) -> OpenedFolder:
    """Returns everything in a model folder except the weights."""
    config = read_config(folder)
    settings = read_settings(folder)
    tokenizer = SubwordTokenizer.load(folder)
    _check_vocabulary(folder, config, tokenizer)
    return OpenedFolder(tokenizer, settings, config)


def _check_exists(folder: Path) -> None:
    if (folder / "ctranslate2").is_dir() and not (folder / WEIGHTS_FILE).is_file():
        raise MtkitError(
            f"{folder}: exported for CTranslate2, which mtkit can't load",
            "name the model that it was exported from",
        )
    if not (folder / CONFIG_FILE).is_file():
        inside = folder / "model"
        missing = CONFIG_FILE if folder.exists() else "such folder"
        raise MtkitError(
            f"{folder}: no model here (no {missing})",
            f"did you mean {inside}?"
            if (inside / CONFIG_FILE).is_file()
            else "train one with `mtkit train`, or let `mtkit run` run all missing steps",
        )


def read_settings(folder: Path) -> Inference:
    """Returns a model folder's decoding defaults."""
    _check_exists(folder)
    settings = _read_section(folder / INFERENCE_FILE, Inference)
    # A folder from elsewhere must not name files outside it.
    return settings.without_paths


def write_section(path: Path, section: BaseModel) -> None:
    """Writes a section as a JSON file."""
    write_atomically(path, as_json_text(section.model_dump(mode="json")))


def _read_section(path: Path, kind: type[SectionKind]) -> SectionKind:
    if not path.is_file():
        raise MtkitError(f"{path}: missing from the model folder", "copy the complete folder again")
    content = read_file(path, max_bytes=_MAX_BYTES)
    # JSON errors are reported in the parser's words.
    parse_json(content, path)
    with reporting_faults(path, "copy the complete folder again, or train the model again"):
        return kind.model_validate_json(content)


def read_config(folder: Path) -> ModelConfig:
    """Returns a model folder's config."""
    _check_exists(folder)
    path = folder / CONFIG_FILE
    facts = read_json(path, max_bytes=_MAX_BYTES)
    if "metric" in facts:
        raise MtkitError(
            f"{path}: a learned metric, not a translator", "name its folder in evaluation.metrics"
        )
    check_format(facts, path, FORMAT_VERSION, "train or import the model again")
    config = _read_section(path, ModelConfig)
    if config.special_tokens != SpecialTokens():
        raise MtkitError(
            f"{path}: special tokens {config.special_tokens.model_dump()}, "
            f"but mtkit supports only {SpecialTokens().model_dump()}"
        )
    return config


def is_adapter(folder: Path) -> bool:
    """Checks that a model folder holds only an adapter."""
    return (folder / ADAPTER_FILE).is_file()


def check_translates(
    config: ModelConfig, purpose: str, *, takes_decoder_only: bool = False
) -> None:
    """Checks that a model is a translator or a denoising model, by default one with an encoder.

    `purpose` completes the error message.
    """
    if config.objective == "classification":
        raise MtkitError(
            f"{config.recipe} is a classifier, but {purpose} is only for translators",
            "mtkit translate labels lines with it",
        )
    if config.model.architecture == "decoder-only" and not takes_decoder_only:
        raise MtkitError(
            f'{config.recipe} is a translator with model.architecture = "decoder-only", and '
            f"{purpose} needs an encoder and a decoder",
            'train with model.architecture = "encoder-decoder"',
        )
    if config.objective not in ENCODER_DECODERS:
        raise MtkitError(
            f'{config.recipe} is a language model (objective = "{config.objective}"), and '
            f"{purpose} is only for translators",
            "a translator is trained from parallel text: data.source_language and "
            "data.target_language",
        )


def _check_vocabulary(folder: Path, config: ModelConfig, tokenizer: SubwordTokenizer) -> None:
    sizes = zip(tokenizer.vocab_sizes.items(), config.vocab_sizes, strict=True)
    for (side, found), expected in sizes:
        if found != expected:
            raise MtkitError(
                f"{folder}: the tokenizer has {found} {side} pieces, but the model has {expected}",
                "use the tokenizer that the model was trained with",
            )
