"""A translator as `MarianMTModel`, or as `PegasusForConditionalGeneration` if pre-norm.

Marian is post-norm, Pegasus pre-norm with a norm after each stack. Both have sinusoidal positions
with all sines first, and an output bias. `MarianTokenizer` works for both: SentencePiece segments
text, and vocab.json has the ids.

Positions with interleaved sines and cosines are reordered to all sines first: the dimensions of
each vector in the residual stream are permuted, and so are the rows or columns of every map that
reads or writes it. Heads are inside the maps and stay as they are.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from mtkit.model.config import ModelConfig
from mtkit.model.exporters.transformers_rows import (
    TOKENIZER_CONFIG,
    TokenRows,
    WrittenTranslator,
    describe_network,
    give_back,
    keep_row_order,
    list_misfits,
    write_json,
)
from mtkit.model.importers.marian import TAG
from mtkit.model.importers.translator_folder import HIDDEN_BIAS
from mtkit.model.parameters import find_rows
from mtkit.model.transformers_names import (
    OUTPUT_BIAS,
    POSITIONS,
    convert_to_transformers,
    find_embeddings,
    list_translator_counterparts,
)
from mtkit.network.embeddings import sinusoids
from mtkit.recipe.model import Model
from mtkit.text.arrange_pieces import leave_out_unknown
from mtkit.text.token_ids import PAD
from mtkit.text.tokenizer import SubwordTokenizer

_READS = ("query_key_value", "query", "key_value", "inner")
"""Linear maps whose inputs are in the residual stream."""
_WRITES = ("output",)
"""Linear maps whose outputs are in the residual stream."""


def sines_first(weights: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Returns an encoder-decoder's weights for positions that have all sines first.

    `weights` are for positions with sines at even dimensions.
    """
    order = torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))
    return {name: _reorder(name, weight, order) for name, weight in weights.items()}


def _reorder(name: str, weight: Tensor, order: Tensor) -> Tensor:
    owner, _, kind = name.rpartition(".")
    part = owner.rpartition(".")[2]
    if name == "output_bias":
        return weight
    if part.endswith("norm") or part in _WRITES:
        return weight[order]
    if part in _READS:
        return weight[:, order] if kind == "weight" else weight
    assert find_rows(name) is not None, name
    return weight[:, order]


def list_marian_faults(model: Model, tokenizer: SubwordTokenizer) -> Iterator[str]:
    """Yields a translator's features that neither Marian nor Pegasus has."""
    yield from list_misfits(model)
    if model.sinusoids == "tensor2tensor" or model.first_position:
        yield (
            f'sinusoids = "{model.sinusoids}" from position {model.first_position}, but both have '
            "the paper's wavelengths from position 0"
        )
    if model.norm == "pre" and model.tied_embeddings != "three-way":
        yield (
            f'model.tied_embeddings = "{model.tied_embeddings}" with pre-norm, where Pegasus has '
            "one matrix for all"
        )
    if tokenizer.punctuation is not None:
        yield "tokenizer.punctuation, which MarianTokenizer leaves to the caller"
    others = [tag for tag in tokenizer.tags if not TAG.fullmatch(tag)]
    if others:
        yield f"the tag {others[0]}, but MarianTokenizer only has tags like >>deu<<"


def arrange_marian(
    model: Model, tokenizer: SubwordTokenizer, weights: Mapping[str, Tensor]
) -> WrittenTranslator:
    """Returns the rows of a translator's tokens in Marian's form."""
    source, target = _find_rows(model, tokenizer, weights)
    foreign = tokenizer.foreign_rows
    return WrittenTranslator(
        architecture="PegasusForConditionalGeneration" if model.norm == "pre" else "MarianMTModel",
        tokenizer_class="MarianTokenizer",
        source=source,
        target=target,
        renormalizes=foreign is not None and foreign.padding_bias is not None,
    )


def _find_rows(
    model: Model, tokenizer: SubwordTokenizer, weights: Mapping[str, Tensor]
) -> tuple[TokenRows, TokenRows]:
    pieces = (tokenizer.source_vocabulary.pieces, tokenizer.target_vocabulary.pieces)
    foreign = tokenizer.foreign_rows
    if foreign is None:
        source, target = map(keep_row_order, pieces)
        return source, target
    source_vectors = [weights["source_embedding.tokens.weight"]]
    source = give_back(pieces[0], foreign.list_rows("source"), source_vectors)
    if model.tied_embeddings == "three-way":
        return source, source
    names = ("target_embedding.tokens.weight", "output_embedding.weight")
    target_vectors = [weights[name] for name in names if name in weights]
    return source, give_back(pieces[1], foreign.list_rows("target"), target_vectors)


def rename_marian(
    config: ModelConfig,
    tokenizer: SubwordTokenizer,
    weights: Mapping[str, Tensor],
    written: WrittenTranslator,
    longest: int,
) -> dict[str, Tensor]:
    """Returns weights by transformers' names, a shared one only under its first name."""
    if config.model.sinusoids == "interleaved":
        weights = sines_first(weights, config.model.d_model)
    found = convert_to_transformers(weights, list_translator_counterparts(config))
    for name, (first, *_) in find_embeddings(config).items():
        rows = written.source if name.startswith("source") else written.target
        found[first] = rows.arrange(weights[name])
    bias = weights.get("output_bias", torch.zeros(config.target_vocab_size)).clone()
    foreign = tokenizer.foreign_rows
    if foreign is not None and foreign.padding_bias is not None and bias[PAD] == HIDDEN_BIAS:
        bias[PAD] = foreign.padding_bias
    found[OUTPUT_BIAS] = written.target.arrange(bias)[None]
    if config.model.norm == "pre":
        # Pegasus keeps its table in the file, Marian doesn't.
        for name in POSITIONS.values():
            found[name] = sinusoids(longest, config.model.d_model, "halves")
    return found


def describe_marian(
    config: ModelConfig, written: WrittenTranslator, longest: int
) -> dict[str, object]:
    """Returns the content of config.json."""
    model = config.model
    if model.norm == "pre":
        # CTranslate2's converter needs these two, which transformers 5 no longer has.
        more = {"normalize_before": True, "normalize_embedding": False}
        return describe_network(model, written, "pegasus", longest) | more
    return describe_network(model, written, "marian", longest) | {
        "decoder_vocab_size": len(written.target.origins),
        "share_encoder_decoder_embeddings": model.tied_embeddings == "three-way",
    }


def write_marian_tokenizer(
    folder: Path,
    config: ModelConfig,
    tokenizer: SubwordTokenizer,
    written: WrittenTranslator,
    longest: int,
) -> None:
    """Writes the files of `MarianTokenizer`."""
    models = tokenizer.models
    if tokenizer.looks_up_unknown:
        # transformers drops control symbols: a piece that only one side has must not be one.
        models = (leave_out_unknown(models[0]), leave_out_unknown(models[1]))
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    write_json(folder / "vocab.json", written.source.pieces)
    is_separate = written.target.pieces != written.source.pieces
    if is_separate:
        write_json(folder / "target_vocab.json", written.target.pieces)
    described = {
        "tokenizer_class": written.tokenizer_class,
        "source_lang": config.source_language,
        "target_lang": config.target_language,
        "model_max_length": longest,
        "separate_vocabs": is_separate,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }
    write_json(folder / TOKENIZER_CONFIG, described)
