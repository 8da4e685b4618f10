"""Adds pieces learned from new text to a vocabulary, after its own, which keep their ids."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import sentencepiece

# protobuf creates the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.errors import MtkitError
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.arrange_pieces import read_proto
from mtkit.text.sentencepiece_segmenter import SentencePieceSegmenter
from mtkit.text.token_ids import SPECIAL_PIECES
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_model

_Piece = ModelProto.SentencePiece


def learn_pieces(
    tokenizer: SubwordTokenizer,
    settings: Tokenizer,
    source: Iterable[str],
    target: Iterable[str],
    *,
    seed: int,
) -> SubwordTokenizer:
    """Returns a tokenizer with more pieces, which SentencePiece learns from normalised text."""
    # A vocabulary of settings.vocab_size pieces is trained, of the tokenizer's kind and on text as
    # it normalises it. Missing pieces are added, unless the tokenizer would still split them. With
    # BPE they rank after all existing ones, so that merges begin as before; with a unigram model
    # they have their learned log-probabilities.
    sentencepiece.set_random_generator_seed(seed)
    models = tokenizer.models
    of_sides = [_normalize(models[0], source), _normalize(models[1], target)]
    if tokenizer.is_joint:
        learned = _train(settings, models[0], chain(*of_sides), "tokenizer")
        pieces = [_find_lacking(model, learned) for model in models]
        # Both models must have the same pieces, or their ids would differ.
        kept = [piece for piece in pieces[0] if piece in pieces[1]]
        extended = [_add_pieces(model, learned, kept) for model in models]
    else:
        extended = []
        for model, text, side in zip(models, of_sides, ("source", "target"), strict=True):
            learned = _train(settings, model, text, f"{side} tokenizer")
            extended.append(_add_pieces(model, learned, _find_lacking(model, learned)))
    first, second = extended
    return tokenizer.with_models(first, second, tokenizer.foreign_rows, unknown=tokenizer.unknown)


def spell_pieces(model: bytes, pieces: Sequence[str]) -> list[list[int]]:
    """Returns the tokens that spell pieces which a model lacks, by mtkit's ids.

    In `pieces`, `▁` is a space. Unknown tokens are left out, so that a list may be empty.
    """
    segmenter = SentencePieceSegmenter(_without_changes(model))
    tokens = segmenter.encode(pieces)
    return [[token for token in found if token >= len(SPECIAL_PIECES)] for found in tokens]


def _normalize(model: bytes, lines: Iterable[str]) -> Iterator[str]:
    """Yields lines as a model sees them."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=_without_prefix(model))
    for line in lines:
        yield processor.normalize(line).replace("▁", " ")


def _without_prefix(model: bytes) -> bytes:
    proto = read_proto(model)
    proto.normalizer_spec.add_dummy_prefix = False
    return bytes(proto.SerializeToString())


def _without_changes(model: bytes) -> bytes:
    """Returns a model that segments pieces unchanged: no space before them, no normalisation."""
    proto = read_proto(model)
    spec = proto.normalizer_spec
    spec.name, spec.precompiled_charsmap = "identity", b""
    spec.add_dummy_prefix = spec.remove_extra_whitespaces = False
    return bytes(proto.SerializeToString())


def _train(settings: Tokenizer, model: bytes, lines: Iterable[str], what: str) -> Any:
    """Returns a model of the same kind, trained on normalised lines."""
    spec = read_proto(model).trainer_spec
    kinds = {spec.BPE: "bpe", spec.UNIGRAM: "unigram"}
    if spec.model_type not in kinds:
        raise MtkitError(
            "the pieces of the model that training starts from are words or characters, and none "
            "can be added",
            "--set training.start_from.vocabulary=new",
        )
    changed = {
        "kind": kinds[spec.model_type],
        "normalization": "identity",
        "byte_fallback": False,
    }
    return read_proto(train_model(settings.model_copy(update=changed), lines, [], what))


def _find_lacking(model: bytes, learned: Any) -> list[str]:
    """Returns the learned pieces that a model would use if they were added."""
    known = {piece.piece for piece in read_proto(model).pieces}
    normal = [piece.piece for piece in learned.pieces if piece.type == _Piece.NORMAL]
    lacking = [piece for piece in normal if piece not in known]
    extended = _add_pieces(model, learned, lacking)
    processor = sentencepiece.SentencePieceProcessor(model_proto=_without_changes(extended))
    cut = processor.encode(lacking, out_type=str)
    return [piece for piece, found in zip(lacking, cut, strict=True) if found == [piece]]


def _add_pieces(model: bytes, learned: Any, pieces: Sequence[str]) -> bytes:
    """Returns a model with learned pieces after its own."""
    proto = read_proto(model)
    scores = {piece.piece: piece.score for piece in learned.pieces}
    if proto.trainer_spec.model_type == proto.trainer_spec.BPE:
        lowest = min((p.score for p in proto.pieces if p.type == _Piece.NORMAL), default=0.0)
        scores = {piece: lowest - 1.0 - rank for rank, piece in enumerate(pieces)}
    for piece in pieces:
        proto.pieces.add(piece=piece, score=scores[piece], type=_Piece.NORMAL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return bytes(proto.SerializeToString())
