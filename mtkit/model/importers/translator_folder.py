"""Writes a public translator as a model folder: the part common to all kinds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from mtkit.errors import MtkitError, shorten
from mtkit.files import reporting_faults
from mtkit.model.config import ModelConfig, OpenedFolder
from mtkit.model.folder import write_model_folder
from mtkit.model.importers.foreign_weights import ForeignWeights
from mtkit.model.importers.licence import Licence
from mtkit.model.importers.source_folder import SourceFolder
from mtkit.model.new_cards import imported_card
from mtkit.model.parameters import Shape
from mtkit.model.transformers_names import (
    OUTPUT_BIAS,
    POSITIONS,
    convert_shapes,
    find_embeddings,
    list_translator_counterparts,
)
from mtkit.model.weight_files import check_memory
from mtkit.network.embeddings import sinusoids
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.text.arrange_pieces import ArrangedPieces
from mtkit.text.token_ids import PAD
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.tokenizer_files import ForeignRows

FILE = "generation_config.json"
_MAX_BYTES = 1 << 20
_MAX_SOURCE_TOKENS = 100_000
HIDDEN_BIAS = -1_000.0
"""Bias of a token that the model can't output: its probability is 0 in any precision."""
_SHOWN = 3
_POSITION_TABLES = (*POSITIONS.values(), *(f"{name}s" for name in POSITIONS.values()))
"""Names of fixed sinusoids; in M2M100's older files they end in `weights`."""


class Generation(BaseModel):
    """The keys that a translator's outputs depend on; the defaults are transformers'."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    origin: str
    num_beams: int = Field(1, ge=1, le=1_000)
    length_penalty: float = Field(1.0, ge=0.0, le=10.0)
    max_length: int = Field(20, ge=2)
    min_length: int = Field(0, ge=0)
    max_new_tokens: int | None = Field(None, ge=1)
    min_new_tokens: int | None = Field(None, ge=0)
    no_repeat_ngram_size: int = Field(0, ge=0)
    renormalize_logits: bool = False
    bad_words_ids: list[list[int]] | None = None
    forced_bos_token_id: int | None = None
    early_stopping: bool | Literal["never"] = False
    do_sample: bool = False
    num_beam_groups: int = 1
    repetition_penalty: float = 1.0
    encoder_no_repeat_ngram_size: int = 0
    diversity_penalty: float = 0.0
    suppress_tokens: list[int] | None = None
    begin_suppress_tokens: list[int] | None = None
    sequence_bias: Any = None
    exponential_decay_length_penalty: Any = None

    @classmethod
    def read(cls, folder: SourceFolder, config: dict[str, object]) -> Self:
        """Returns a folder's settings; older folders have them in config.json."""
        found = folder.read_json(FILE, max_bytes=_MAX_BYTES)
        origin = f"{folder.origin}/{FILE if found else 'config.json'}"
        told = {key: value for key, value in (found or config).items() if value is not None}
        with reporting_faults(origin):
            read = cls.model_validate({**told, "origin": origin})
        read._check_search()
        for key in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
            value = told.get(key)
            if value is not None and value not in (config.get(key, value), [config.get(key)]):
                raise MtkitError(
                    f"{origin}: {key} = {shorten(str(value), 40)}, but config.json has "
                    f"{config[key]}",
                    "mtkit needs the same id in both files",
                )
        return read

    def _check_search(self) -> None:
        wanted = {
            "do_sample": False,
            "num_beam_groups": 1,
            "repetition_penalty": 1.0,
            "encoder_no_repeat_ngram_size": 0,
            "diversity_penalty": 0.0,
            **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "sequence_bias")),
            "exponential_decay_length_penalty": None,
        }
        for key, value in wanted.items():
            found = getattr(self, key)
            if found != value and (value is not None or found):
                raise MtkitError(
                    f"{self.origin}: {key} = {shorten(str(found), 40)}, which mtkit's search "
                    "doesn't support",
                    "remove it to use the model without it"
                    if value is None
                    else f"set it to {str(value).lower()} to use the model without it",
                )

    def find_hidden(self, never_written: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the rows without probability: bad words, if probabilities are renormalised.

        `never_written` are rows that mtkit never writes. They may be bad words in any case; others
        are an error.
        """
        for word in self.bad_words_ids or []:
            if len(word) != 1 or not (self.renormalize_logits or word[0] in never_written):
                raise MtkitError(
                    f"{self.origin}: bad_words_ids has {word[:10]}, but mtkit can forbid only "
                    "padding, and other single pieces if renormalize_logits is true",
                    "remove it if the model is to be used without it",
                )
        if not self.renormalize_logits:
            return ()
        return tuple(word[0] for word in self.bad_words_ids or [])

    def to_settings(self, max_positions: int) -> Inference:
        """Returns the decoding defaults of a model folder; `max_positions` limits the source."""
        # Their minimum and maximum length count the decoder's first input.
        max_tokens = min(self.max_new_tokens or self.max_length - 1, 100_000)
        min_length = max(0, self.min_length - 1)
        return Inference(
            beam_size=self.num_beams,
            length_penalty=LengthPenalty(kind="power", alpha=self.length_penalty),
            min_length=min_length if self.min_new_tokens is None else self.min_new_tokens,
            no_repeat_ngram=self.no_repeat_ngram_size or None,
            stop_margin=max_tokens if self.early_stopping == "never" else 0,
            max_output_tokens=max_tokens,
            max_extra_tokens=min(max_tokens, 10_000),
            max_source_tokens=max(8, min(max_positions, _MAX_SOURCE_TOKENS)),
        )


@dataclass(frozen=True)
class ForeignTranslator:
    """A public translator without its weights.

    Attributes:
        config: mtkit's config; the network has an output bias.
        source: The rows of its source pieces.
        target: The rows of its target pieces; the source's for a shared vocabulary.
        has_output_bias: Whether its files have an output bias.
        hidden_rows: Rows of target pieces without probability.
    """

    config: ModelConfig
    settings: Inference
    tokenizer: SubwordTokenizer
    source: ArrangedPieces
    target: ArrangedPieces
    has_output_bias: bool
    hidden_rows: tuple[int, ...]

    @property
    def hidden(self) -> list[int]:
        """Target tokens that it can't output."""
        rows = set(self.hidden_rows)
        by_row = (token for token, row in enumerate(self.target.rows) if row in rows)
        return sorted({*self.target.hidden, *by_row})


def write_imported(
    folder: Path, translator: ForeignTranslator, weights: ForeignWeights, licence: Licence
) -> int:
    """Writes a public translator as a model folder; returns the number of its weights.

    Weights are read one at a time.
    """
    _check(translator, weights)
    ours = _convert(translator, weights)
    tokenizer = translator.tokenizer
    tokenizer = tokenizer.with_models(*tokenizer.models, _record(translator, weights))
    num_parameters = sum(tensor.numel() for tensor in ours.values())
    opened = OpenedFolder(tokenizer, translator.settings, translator.config)
    card = imported_card(
        translator.config,
        num_parameters=num_parameters,
        settings=translator.settings,
        origin=licence.origin,
        licence=licence.name,
        is_joint=translator.tokenizer.is_joint,
    )
    write_model_folder(folder, opened, weights=ours, card=card)
    return num_parameters


def _record(translator: ForeignTranslator, weights: ForeignWeights) -> ForeignRows:
    """Returns the original rows of the pieces, and the bias of padding before it was hidden."""
    bias = None
    if translator.has_output_bias and PAD in translator.hidden:
        there = OUTPUT_BIAS in weights.shapes
        bias = float(weights.read(OUTPUT_BIAS)[0, translator.target.rows[PAD]]) if there else 0.0
    return ForeignRows.of(translator.source.rows, translator.target.rows, bias)


def _expect(translator: ForeignTranslator) -> dict[str, Shape]:
    """Returns the shape of each tensor that a file must have."""
    config, shapes = translator.config, translator.config.list_shapes()
    expected = convert_shapes(shapes, list_translator_counterparts(config))
    sizes = {
        "source_embedding.tokens.weight": max(translator.source.rows) + 1,
        "target_embedding.tokens.weight": max(translator.target.rows) + 1,
        "output_embedding.weight": max(translator.target.rows) + 1,
    }
    for name, (first, *_) in find_embeddings(config).items():
        expected[first] = (sizes[name], config.model.d_model)
    if translator.has_output_bias:
        expected[OUTPUT_BIAS] = (1, max(translator.target.rows) + 1)
    return expected


def _check(translator: ForeignTranslator, weights: ForeignWeights) -> None:
    """Checks that files have exactly a network's weights, and that they fit into memory."""
    check_memory(translator.config.list_shapes().values(), weights.origin)
    expected = _expect(translator)
    found = dict(weights.shapes)
    # transformers writes a shared matrix under one of its names, or under all.
    for first, *others in find_embeddings(translator.config).values():
        for name in others:
            shape = found.pop(name, None)
            if shape is not None and first not in found:
                found[first] = shape
            elif shape is not None and not _is_same(weights, first, name):
                raise MtkitError(
                    f"{weights.origin}: {name} is another matrix than {first}, but config.json "
                    "says that they are one",
                    "is tie_word_embeddings or share_encoder_decoder_embeddings wrong?",
                )
    for name in (*_POSITION_TABLES, OUTPUT_BIAS):
        if name not in expected:
            found.pop(name, None)
    if OUTPUT_BIAS in expected:
        # Optional in transformers.
        found.setdefault(OUTPUT_BIAS, expected[OUTPUT_BIAS])
    faults = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    faults += [
        f"{shorten(name, 80)} has no counterpart here"
        for name in sorted(found.keys() - expected.keys())
    ]
    faults += [
        f"{name} has shape {list(found[name])}, expected {list(shape)}"
        for name, shape in sorted(expected.items())
        if name in found and found[name] != shape
    ]
    if faults:
        more = f" (and {len(faults) - _SHOWN:,} more)" if len(faults) > _SHOWN else ""
        raise MtkitError(
            f"{weights.origin}: not the weights that config.json describes: "
            + "; ".join(faults[:_SHOWN])
            + more,
            "copy the complete folder again from where it came from",
        )


def _is_same(weights: ForeignWeights, first: str, other: str) -> bool:
    if weights.shapes[first] != weights.shapes[other]:
        return False
    return weights.read(first).equal(weights.read(other))


def _convert(translator: ForeignTranslator, weights: ForeignWeights) -> dict[str, Tensor]:
    """Returns the weights by mtkit's names, in mtkit's order of pieces, in fp32."""
    _check_positions(translator, weights)
    config = translator.config
    found: dict[str, Tensor] = {}
    counterparts = {one.origin: one for one in list_translator_counterparts(config)}
    embeddings = find_embeddings(config)
    for name, shape in config.list_shapes().items():
        if name in counterparts:
            parts = [weights.read(part) for part in counterparts[name].names]
            found[name] = torch.cat(parts).to(torch.float32)
        elif name in embeddings:
            side = translator.source if name.startswith("source") else translator.target
            theirs = next(each for each in embeddings[name] if each in weights.shapes)
            found[name] = weights.read(theirs)[torch.tensor(side.rows)].to(torch.float32)
        else:
            assert name == "output_bias", name
            bias = torch.zeros(shape)
            if translator.has_output_bias and OUTPUT_BIAS in weights.shapes:
                rows = torch.tensor(translator.target.rows)
                bias = weights.read(OUTPUT_BIAS)[0, rows].to(torch.float32)
            bias[translator.hidden] = HIDDEN_BIAS
            found[name] = bias
        if not found[name].isfinite().all():
            raise MtkitError(
                f"{weights.origin}: NaN or infinite values in the weights of {name}",
                "copy the complete folder again from where it came from",
            )
        # A view would keep the whole file in memory.
        found[name] = found[name].clone() if found[name]._is_view() else found[name]
    return found


def _check_positions(translator: ForeignTranslator, weights: ForeignWeights) -> None:
    """Checks that sinusoids in a file are those that the network computes."""
    model = translator.config.model
    for name in _POSITION_TABLES:
        if name not in weights.shapes:
            continue
        table = weights.read(name).float()
        expected = sinusoids(table.shape[0], model.d_model, model.sinusoids)
        # In some files the padding's vector, before the first position, is zero.
        start = model.first_position
        if table.shape != expected.shape or not torch.allclose(
            table[start:], expected[start:], atol=2e-3
        ):
            raise MtkitError(
                f"{weights.origin}: {name} differs from the sinusoids of this network",
                "mtkit imports translators whose positions are fixed",
            )
