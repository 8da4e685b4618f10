"""Trims a vocabulary to the pieces that some text uses.

Text that the remaining pieces spell is segmented as before. A unigram model needs nothing more: the
best of all segmentations is also the best of fewer. BPE needs the intermediate pieces of each
piece's merges.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sentencepiece

# protobuf creates the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.text.arrange_pieces import read_proto, reorder_model, write_pieces
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import Vocabulary

_Piece = ModelProto.SentencePiece
_LINES_AT_ONCE = 4_096
_SPACE = "▁"


@dataclass(frozen=True)
class TrimmedTokenizer:
    """A tokenizer with fewer pieces, and the old id of each source and target piece."""

    tokenizer: SubwordTokenizer
    source: tuple[int, ...]
    target: tuple[int, ...]


def trim_vocabulary(tokenizer: SubwordTokenizer, lines: Sequence[str]) -> TrimmedTokenizer:
    """Returns a tokenizer with the pieces that it segments lines into, and those that it needs."""
    # The latter are special pieces, tags and other symbols, bytes and single characters. Each line
    # is read as a source and as a target. Pieces that are read as `<unk>` stay, or their text would
    # be segmented into others.
    used = set(tokenizer.unknown[0]), set(tokenizer.unknown[1])
    for first in range(0, len(lines), _LINES_AT_ONCE):
        block = lines[first : first + _LINES_AT_ONCE]
        for tokens in tokenizer.encode_source(block):
            used[0].update(tokens)
        for tokens in tokenizer.encode_target(block):
            used[1].update(tokens)
    vocabularies = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    protos = [
        _read_by_our_ids(model, vocabulary)
        for model, vocabulary in zip(tokenizer.models, vocabularies, strict=True)
    ]
    kept = [_complete(proto, of_side) for proto, of_side in zip(protos, used, strict=True)]
    if tokenizer.is_joint:
        both = sorted({*kept[0], *kept[1]})
        kept = [both, both]
    models = [
        write_pieces(proto, [proto.pieces[token] for token in of_side])
        for proto, of_side in zip(protos, kept, strict=True)
    ]
    unknown = [
        [token for token, was in enumerate(of_side) if was in old]
        for of_side, old in zip(kept, map(set, tokenizer.unknown), strict=True)
    ]
    trimmed = tokenizer.with_models(models[0], models[1], unknown=(unknown[0], unknown[1]))
    return TrimmedTokenizer(trimmed, tuple(kept[0]), tuple(kept[1]))


def _read_by_our_ids(model: bytes, vocabulary: Vocabulary) -> Any:
    """Returns a model whose pieces are in the order of mtkit's ids."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    specials = [getattr(processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")]
    if specials != [PAD, UNK, BOS, EOS]:
        model = reorder_model(model, vocabulary.pieces, writes=True)
    return read_proto(model)


def _complete(proto: Any, used: set[int]) -> list[int]:
    """Returns the ids of used pieces, and of those that any text needs."""
    kept = {token for token in used if token < len(proto.pieces)} | set(range(len(SPECIAL_PIECES)))
    for token, piece in enumerate(proto.pieces):
        is_symbol = piece.type in (_Piece.USER_DEFINED, _Piece.BYTE)
        is_control = piece.type == _Piece.CONTROL and not piece.piece.startswith("<row ")
        is_letter = piece.type == _Piece.NORMAL and len(piece.piece.removeprefix(_SPACE)) <= 1
        if is_symbol or is_control or is_letter:
            kept.add(token)
    if proto.trainer_spec.model_type == proto.trainer_spec.BPE:
        scores = {
            piece.piece: piece.score
            for piece in proto.pieces
            if piece.type in (_Piece.NORMAL, _Piece.UNUSED)
        }
        ids = {piece.piece: token for token, piece in enumerate(proto.pieces)}
        for token in list(kept):
            if proto.pieces[token].type == _Piece.NORMAL:
                kept.update(ids[part] for part in _list_merges(proto.pieces[token].piece, scores))
    return sorted(kept)


def _list_merges(piece: str, scores: dict[str, float]) -> Iterator[str]:
    """Yields the pieces that BPE's merges make on the way to a piece."""
    parts = list(piece)
    while True:
        found = [
            (scores[left + right], -index)
            for index, (left, right) in enumerate(pairwise(parts))
            if left + right in scores
        ]
        if not found:
            return
        index = -max(found)[1]
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
        yield parts[index]
