"""A SentencePiece model of merges (BPE) in the terms of the `tokenizers` library."""

from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Any

# protobuf makes the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

_Piece = ModelProto.SentencePiece


def is_bpe(model: bytes) -> bool:
    """Returns whether a SentencePiece model merges pieces."""
    spec = _read(model).trainer_spec
    return bool(spec.model_type == spec.BPE)


def list_symbols(model: bytes) -> list[str]:
    """Returns the strings that a SentencePiece model takes for a piece wherever they stand."""
    return [str(one.piece) for one in _read(model).pieces if one.type == _Piece.USER_DEFINED]


def read_charsmap(model: bytes) -> str:
    """Returns a SentencePiece model's table of normalisation in base64; empty for none."""
    return b64encode(_read(model).normalizer_spec.precompiled_charsmap).decode("ascii")


def list_merges(model: bytes, leaves_out: Collection[str] = ()) -> list[tuple[str, str]]:
    """Returns the pairs of pieces that a SentencePiece model merges, best first.

    SentencePiece merges whichever two neighbours spell the best piece, and so each piece has a
    merge for each way to halve it.

    Args:
        model: The model, one of merges.
        leaves_out: Pieces that take no part.
    """
    scores = {
        str(one.piece): float(one.score)
        for one in _read(model).pieces
        if one.type == _Piece.NORMAL and one.piece not in leaves_out
    }
    ordered = sorted(scores, key=lambda piece: -scores[piece])
    return [pair for piece in ordered for pair in _halve(piece, scores)]


def _halve(piece: str, known: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    for end in range(1, len(piece)):
        if piece[:end] in known and piece[end:] in known:
            yield piece[:end], piece[end:]


def _read(model: bytes) -> Any:
    proto = ModelProto()
    proto.ParseFromString(model)
    return proto
