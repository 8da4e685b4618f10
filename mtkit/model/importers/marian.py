"""Marian's translators in transformers' form: all of OPUS-MT.

Post-norm, positions with all sines first, a bias of each piece's logit; `<pad>` is the decoder's
first input. Two SentencePiece models cut text, and one or two lists of pieces have the ids.
"""

import json
import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mtkit.errors import MtkitError, shorten
from mtkit.foreign_files import describe_fault
from mtkit.model.config import ModelConfig
from mtkit.model.importers.generation import Generation
from mtkit.model.importers.source_folder import SourceFolder
from mtkit.model.importers.translator import ForeignTranslator
from mtkit.model.m2m100_config import ACTIVATIONS
from mtkit.recipe.model import Model
from mtkit.text.arrange_pieces import (
    ArrangedPieces,
    SpecialRows,
    arrange_pieces,
    check_ids,
    reorder_model,
)
from mtkit.text.languages import UNDETERMINED
from mtkit.text.sentencepiece_segmenter import read_model
from mtkit.text.token_ids import BOS, PAD, SPECIAL_PIECES
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import MAX_PIECES

MAX_VOCABULARY_BYTES = 64 << 20
_MAX_CONFIG_BYTES = 1 << 20
TAG = re.compile(r">>[^<>\s]+<<")
"""A target language, written before a source."""
UNUSED_PIECE = "<unused>"
"""Padding of a model of mtkit's that was exported: there `<pad>` is the decoder's first input."""
_NAME = re.compile(r"opus-mt-(?:tc-)?(?:big-|base-|tiny-)?([a-zA-Z_]+)-([a-zA-Z_]+)")


class MarianConfig(BaseModel):
    """`MarianConfig`'s keys; the defaults are transformers'."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    vocab_size: int = Field(58_101, ge=4, le=MAX_PIECES)
    decoder_vocab_size: int | None = Field(None, ge=4, le=MAX_PIECES)
    max_position_embeddings: int = Field(1024, ge=1)
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    activation_function: Literal["relu", "gelu", "gelu_new", "silu", "swish"] = "gelu"
    d_model: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = 58_100
    eos_token_id: int = 0
    decoder_start_token_id: int | None = None
    normalize_embedding: Literal[False] = False
    normalize_before: Literal[False] = False
    add_bias_logits: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    static_position_embeddings: Literal[True] = True

    @property
    def target_vocab_size(self) -> int:
        """Rows of the decoder's embedding."""
        if self.share_encoder_decoder_embeddings or self.decoder_vocab_size is None:
            return self.vocab_size
        return self.decoder_vocab_size

    @property
    def start(self) -> int:
        """The decoder's first input."""
        return (
            self.pad_token_id
            if self.decoder_start_token_id is None
            else self.decoder_start_token_id
        )

    def to_model(self) -> Model:
        """Returns the network's section of a recipe.

        Raises:
            ValueError: Encoder and decoder differ in what is one number here.
        """
        for name in ("ffn_dim", "attention_heads"):
            pair = getattr(self, f"encoder_{name}"), getattr(self, f"decoder_{name}")
            if pair[0] != pair[1]:
                raise ValueError(
                    f"encoder_{name} = {pair[0]} and decoder_{name} = {pair[1]}: mtkit has one "
                    "number for both"
                )
        if not self.tie_word_embeddings:
            tied: Literal["three-way", "decoder", "none"] = "none"
        else:
            tied = "three-way" if self.share_encoder_decoder_embeddings else "decoder"
        return Model(
            num_encoder_layers=self.encoder_layers,
            num_decoder_layers=self.decoder_layers,
            d_model=self.d_model,
            d_ff=self.encoder_ffn_dim,
            num_heads=self.encoder_attention_heads,
            activation=ACTIVATIONS[self.activation_function],
            sinusoids="halves",
            tied_embeddings=tied,
            scale_embeddings=self.scale_embedding,
            output_bias=True,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
        )


def read_marian(folder: SourceFolder, content: dict[str, Any]) -> ForeignTranslator:
    """Returns a Marian translator but for its weights.

    Args:
        folder: Its folder.
        content: Its config.json.

    Raises:
        MtkitError: A file is missing or damaged, or asks for what mtkit doesn't have.
    """
    origin = f"{folder.origin}/config.json"
    try:
        theirs = MarianConfig.model_validate(content)
        model = theirs.to_model()
    except ValidationError as error:
        raise MtkitError(f"{origin}: no network that mtkit has: {describe_fault(error)}") from error
    except ValueError as error:
        raise MtkitError(f"{origin}: no network that mtkit has: {error}") from error
    settings = folder.read_json("tokenizer_config.json", max_bytes=_MAX_CONFIG_BYTES)
    paths = [folder.need(name) for name in ("source.spm", "target.spm")]
    spms = [read_model(path) for path in paths]
    source, target, tags = _read_vocabularies(folder, theirs, settings, spms)
    try:
        models = [
            reorder_model(spms[0], source.pieces, symbols=tags, writes=False),
            reorder_model(spms[1], target.pieces, symbols=tags, writes=True),
        ]
        tokenizer = SubwordTokenizer(*models, tags=sorted(tags), looks_up_unknown=True)
        _ = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    except (RuntimeError, TypeError, UnicodeDecodeError) as error:
        raise MtkitError(f"{folder.origin}: damaged tokenizer: {error}") from error
    generation = Generation.read(folder, content)
    hidden = generation.find_hidden((target.rows[PAD], theirs.pad_token_id, theirs.start))
    source_language, target_language = _find_languages(folder, settings)
    config = ModelConfig(
        recipe=folder.name,
        source_language=source_language,
        target_language=target_language,
        source_vocab_size=len(source.pieces),
        target_vocab_size=len(target.pieces),
        model=model,
    )
    return ForeignTranslator(
        config=config,
        settings=generation.to_settings(theirs.max_position_embeddings),
        tokenizer=tokenizer,
        source=source,
        target=target,
        has_output_bias=True,
        hidden_rows=hidden,
    )


def _read_vocabularies(
    folder: SourceFolder, theirs: MarianConfig, settings: dict[str, Any], spms: list[bytes]
) -> tuple[ArrangedPieces, ArrangedPieces, set[str]]:
    """Returns both sides' pieces, and the tags that may stand before a source."""
    ids = _rename_own(read_ids(folder, "vocab.json", theirs.vocab_size))
    tags = {piece for piece in ids if TAG.fullmatch(piece)}
    special = _find_special(folder, ids, theirs)
    if theirs.share_encoder_decoder_embeddings and not settings.get("separate_vocabs"):
        both = arrange_pieces(ids, theirs.vocab_size, special, models=spms)
        return both, both, tags
    of_target = _rename_own(read_ids(folder, "target_vocab.json", theirs.target_vocab_size))
    source = arrange_pieces(ids, theirs.vocab_size, special, models=spms[:1])
    target = arrange_pieces(
        of_target,
        theirs.target_vocab_size,
        _find_special(folder, of_target, theirs),
        models=spms[1:],
    )
    return source, target, tags


def _rename_own(ids: dict[str, int]) -> dict[str, int]:
    """Returns a vocabulary in which padding of a model that mtkit exported is padding again."""
    if UNUSED_PIECE not in ids:
        return ids
    names = {UNUSED_PIECE: SPECIAL_PIECES[PAD], SPECIAL_PIECES[PAD]: SPECIAL_PIECES[BOS]}
    return {names.get(piece, piece): row for piece, row in ids.items()}


def _find_special(folder: SourceFolder, ids: dict[str, int], theirs: MarianConfig) -> SpecialRows:
    for piece in ("<unk>", "</s>"):
        if piece not in ids:
            raise MtkitError(f"{folder.origin}: the vocabulary has no {piece}")
    if ids["</s>"] != theirs.eos_token_id:
        raise MtkitError(
            f"{folder.origin}/config.json: eos_token_id = {theirs.eos_token_id}, but </s> has id "
            f"{ids['</s>']} in the vocabulary"
        )
    pad = ids.get("<pad>", theirs.pad_token_id)
    return SpecialRows(pad=pad, unk=ids["<unk>"], start=theirs.start, eos=ids["</s>"])


def read_ids(folder: SourceFolder, name: str, num_rows: int) -> dict[str, int]:
    """Returns the id of each piece in a list of pieces.

    Raises:
        MtkitError: It is missing or damaged, or doesn't fit the embedding.
    """
    folder.need(name)
    content = folder.read_json(name, max_bytes=MAX_VOCABULARY_BYTES)
    for piece, row in content.items():
        if not isinstance(row, int) or isinstance(row, bool):
            fault = f"{shorten(json.dumps(piece), 60)} has id {shorten(str(row), 40)}"
            raise MtkitError(f"{folder.origin}/{name}: {fault}, expected a whole number")
    check_ids(content, num_rows, f"{folder.origin}/{name}")
    return content


def _find_languages(folder: SourceFolder, settings: dict[str, Any]) -> tuple[str, str]:
    """Returns the languages that a tokenizer's settings tell, or the folder's name."""
    told = [settings.get(key) for key in ("source_lang", "target_lang")]
    named = _NAME.search(folder.origin)
    for index in (0, 1):
        if not isinstance(told[index], str) or not told[index]:
            told[index] = named[index + 1] if named else UNDETERMINED
    return shorten(str(told[0]), 40), shorten(str(told[1]), 40)
