"""The common part of translators in transformers' folders: rows of tokens and keys of configs.

An imported model gets back its original rows. Training may have separated tokens that shared a row,
such as `<pad>` and the decoder's first input: each that differs gets a row after the others. A
model trained by mtkit keeps its order, and its `<s>` is `<pad>` there: the decoder's first input.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.files import as_json_text, write_atomically
from mtkit.model.importers.marian import UNUSED_PIECE
from mtkit.model.translator_config import ACTIVATIONS
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK

TOKENIZER_CONFIG = "tokenizer_config.json"
_MIN_POSITIONS = 512
_NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class TokenRows:
    """A vocabulary in transformers' order.

    Attributes:
        rows: The row of each of mtkit's tokens.
        origins: The token of each row's vectors.
        pieces: The row of each piece, as in vocab.json.
        start: Row of the decoder's first input.
        forbidden: Rows that must not be output.
    """

    rows: tuple[int, ...]
    origins: tuple[int, ...]
    pieces: Mapping[str, int]
    pad: int
    start: int
    forbidden: tuple[int, ...]

    @property
    def eos(self) -> int:
        """Row of `</s>`."""
        return self.rows[EOS]

    def arrange(self, vectors: Tensor) -> Tensor:
        """Returns one vector or number per row, from those per token."""
        return vectors[torch.tensor(self.origins)]


def keep_row_order(pieces: Sequence[str]) -> TokenRows:
    """Returns rows in the order of mtkit's tokens."""
    names = [UNUSED_PIECE, pieces[UNK], SPECIAL_PIECES[PAD], *pieces[EOS:]]
    tokens = tuple(range(len(pieces)))
    return TokenRows(
        rows=tokens,
        origins=tokens,
        pieces={name: row for row, name in reversed(list(enumerate(names)))},
        pad=BOS,
        start=BOS,
        forbidden=(PAD, BOS),
    )


def give_back(
    pieces: Sequence[str], foreign: Sequence[int], vectors: Sequence[Tensor]
) -> TokenRows:
    """Returns the original rows of an imported model's tokens, and new rows if training needs them.

    Args:
        pieces: The piece of each token.
        foreign: The original row of each token; tokens that were added later have none.
        vectors: Matrices with a vector per token; tokens that shared a row still do if their
            vectors are equal in all of them.
    """
    num_rows = max(foreign) + 1
    rows: dict[int, int] = {}
    origins: dict[int, int] = {}
    # A row that several tokens share belongs to one that can be output, never to `<s>`.
    for token in (PAD, UNK, EOS, *range(len(SPECIAL_PIECES), len(pieces)), BOS):
        row = foreign[token] if token < len(foreign) else num_rows
        first = origins.get(row)
        if first is not None and not all(each[first].equal(each[token]) for each in vectors):
            row = num_rows
        if row == num_rows:
            num_rows += 1
        rows[token] = row
        origins.setdefault(row, token)
    # A piece without its own row isn't in this map, so a look-up yields the row of unknown pieces.
    named = {
        piece: rows[token]
        for token, piece in enumerate(pieces)
        if origins[rows[token]] == token and (token != BOS or rows[BOS] != rows[PAD])
    }
    pad, start = rows[PAD], rows[BOS]
    return TokenRows(
        rows=tuple(rows[token] for token in range(len(pieces))),
        origins=tuple(origins[row] for row in range(num_rows)),
        pieces=dict(sorted(_restore(named).items(), key=lambda item: item[1])),
        pad=pad,
        start=start,
        forbidden=(pad,) if start == pad else (pad, start),
    )


def _restore(pieces: Mapping[str, int]) -> dict[str, int]:
    """Returns pieces without the placeholders of rows that no text has."""
    return {piece: row for piece, row in pieces.items() if not piece.startswith("<row ")}


@dataclass(frozen=True)
class WrittenTranslator:
    """A translator in transformers' form.

    Attributes:
        architecture: The class that loads it.
        tokenizer_class: The class of its tokenizer.
        source: The rows of source tokens.
        target: The rows of target tokens; the source's if one matrix has all.
        renormalizes: Whether forbidden tokens get no probability.
        forced_row: Row of the first output token; None if it isn't fixed.
    """

    architecture: str
    tokenizer_class: str
    source: TokenRows
    target: TokenRows
    renormalizes: bool
    forced_row: int | None = None


def list_misfits(model: Model) -> Iterator[str]:
    """Yields a network's features that no translator in transformers has."""
    width = model.d_model / model.num_heads
    if model.positions != "sinusoidal":
        yield f'model.positions = "{model.positions}", but all have sinusoids'
    if model.activation not in ACTIVATIONS.values():
        yield f'model.activation = "{model.activation}", which has a gate'
    if (model.d_key, model.d_value) != (width, width):
        yield f"heads of a width other than d_model / num_heads = {width:g}"
    if model.attention_window is not None:
        yield f"model.attention_window = {model.attention_window}"
    if model.embedding_norm:
        yield "model.embedding_norm = true"
    if model.norm_epsilon != _NORM_EPSILON:
        yield f"model.norm_epsilon = {model.norm_epsilon}, expected {_NORM_EPSILON}"


def list_unsupported_settings(settings: Inference) -> Iterator[str]:
    """Yields a search's features that transformers lacks."""
    if settings.sampling is not None:
        yield "inference.sampling (--set '~inference.sampling')"
    if settings.coverage_penalty:
        yield "inference.coverage_penalty (--set inference.coverage_penalty=0.0)"


def find_output_limit(settings: Inference) -> int:
    """Returns the maximum output length for transformers, including `</s>`."""
    return settings.max_output_tokens or settings.max_source_tokens + settings.max_extra_tokens


def is_exact(settings: Inference) -> bool:
    """Checks that search continues until no better output is possible."""
    return settings.stop_margin >= find_output_limit(settings)


def find_longest(settings: Inference) -> int:
    """Returns the number of positions for a folder's config."""
    # transformers counts the decoder's first input.
    return max(_MIN_POSITIONS, settings.max_source_tokens, find_output_limit(settings) + 1)


def describe_network(
    model: Model, written: WrittenTranslator, model_type: str, longest: int
) -> dict[str, object]:
    """Returns the part of config.json that all translators share."""
    rows = written.target
    activation = next(name for name, ours in ACTIVATIONS.items() if ours == model.activation)
    return {
        "architectures": [written.architecture],
        "model_type": model_type,
        "is_encoder_decoder": True,
        "vocab_size": len(written.source.origins),
        "d_model": model.d_model,
        "encoder_layers": model.num_encoder_layers,
        "decoder_layers": model.num_decoder_layers,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "activation_function": activation,
        "scale_embedding": model.scale_embeddings,
        "max_position_embeddings": longest,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "pad_token_id": rows.pad,
        "eos_token_id": rows.eos,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "decoder_start_token_id": rows.start,
        "tie_word_embeddings": model.tied_embeddings != "none",
        "dtype": "float32",
    }


def describe_search(written: WrittenTranslator, settings: Inference) -> dict[str, object]:
    """Returns the content of generation_config.json.

    `settings` have the power form of the length penalty.
    """
    rows = written.target
    described: dict[str, object] = {
        "num_beams": settings.beam_size,
        "length_penalty": settings.length_penalty.alpha,
        # A small margin lies between the two; "never" takes several times as long.
        "early_stopping": "never" if is_exact(settings) else False,
        # transformers counts the decoder's first input.
        "max_length": find_output_limit(settings) + 1,
        "bad_words_ids": [[row] for row in rows.forbidden],
        "pad_token_id": rows.pad,
        "eos_token_id": rows.eos,
        "decoder_start_token_id": rows.start,
    }
    if settings.min_length:
        described["min_length"] = settings.min_length + 1
    if settings.no_repeat_ngram is not None:
        described["no_repeat_ngram_size"] = settings.no_repeat_ngram
    if written.renormalizes:
        described["renormalize_logits"] = True
    if written.forced_row is not None:
        described["forced_bos_token_id"] = written.forced_row
    return described


def write_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Writes a JSON file."""
    write_atomically(path, as_json_text(content))
