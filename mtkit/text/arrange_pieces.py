"""A SentencePiece model whose pieces have another vocabulary's ids.

Public translators have a SentencePiece model that segments text, and a list of pieces with their
ids. Here both become one model: it segments as theirs does, and its pieces are in the list's order
after mtkit's special ones.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

# protobuf creates the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.errors import MtkitError, shorten
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK

_Piece = ModelProto.SentencePiece
_NAME_OF_ROW = re.compile(r"<row [0-9]+(?:: (.*))?>", flags=re.DOTALL)


def is_bpe(model: bytes) -> bool:
    """Returns whether a SentencePiece model is BPE."""
    spec = read_proto(model).trainer_spec
    return bool(spec.model_type == spec.BPE)


def list_symbols(model: bytes) -> list[str]:
    """Returns a SentencePiece model's user-defined symbols."""
    return [str(one.piece) for one in read_proto(model).pieces if one.type == _Piece.USER_DEFINED]


def read_charsmap(model: bytes) -> str:
    """Returns a SentencePiece model's normalisation table in base64; empty without one."""
    return b64encode(read_proto(model).normalizer_spec.precompiled_charsmap).decode("ascii")


def list_merges(model: bytes, leaves_out: Collection[str] = ()) -> list[tuple[str, str]]:
    """Returns the merges of a BPE SentencePiece model, best first, without `leaves_out`."""
    # SentencePiece merges any two neighbours that spell the best piece. So each piece has a merge
    # for each split into two pieces.
    scores = {
        str(one.piece): float(one.score)
        for one in read_proto(model).pieces
        if one.type == _Piece.NORMAL and one.piece not in leaves_out
    }
    ordered = sorted(scores, key=lambda piece: -scores[piece])
    return [pair for piece in ordered for pair in _halve(piece, scores)]


def _halve(piece: str, known: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    for end in range(1, len(piece)):
        if piece[:end] in known and piece[end:] in known:
            yield piece[:end], piece[end:]


@dataclass(frozen=True)
class SpecialRows:
    """Embedding rows of special tokens in another program's model.

    Attributes:
        start: The decoder's first input; it may share another token's row.
    """

    pad: int
    unk: int
    start: int
    eos: int

    @property
    def by_token(self) -> dict[int, int]:
        """The row of each of mtkit's special tokens."""
        return {PAD: self.pad, UNK: self.unk, BOS: self.start, EOS: self.eos}


@dataclass(frozen=True)
class ArrangedPieces:
    """A vocabulary in mtkit's order, and the rows of its vectors.

    Attributes:
        pieces: Every piece by mtkit's id, special ones first.
        rows: The other program's embedding row of each.
        hidden: Tokens that share a row with another: the other program can't write them.
    """

    pieces: tuple[str, ...]
    rows: tuple[int, ...]
    hidden: tuple[int, ...]


def arrange_pieces(
    ids: Mapping[str, int], num_rows: int, special: SpecialRows, *, models: Sequence[bytes]
) -> ArrangedPieces:
    """Returns the pieces of a vocabulary after mtkit's special ones.

    A piece that only a SentencePiece model has comes last, with the row of unknown pieces, as the
    other program reads it. A row without a piece gets a placeholder that no text contains.

    Args:
        ids: The row of each piece.
        num_rows: Rows of the embedding.
        special: The special ones.
        models: The SentencePiece models that segment text into such pieces.
    """
    pieces, rows = list(SPECIAL_PIECES), list(special.by_token.values())
    by_row = {row: piece for piece, row in ids.items()}
    # A row that is only the decoder's first input isn't a text token.
    told = {special.pad, special.unk, special.eos}
    if by_row.get(special.start, SPECIAL_PIECES[BOS]) == SPECIAL_PIECES[BOS]:
        told.add(special.start)
    taken = set(SPECIAL_PIECES)
    for row in range(num_rows):
        if row not in told:
            piece = by_row.get(row, f"<row {row}>")
            # A second `<s>` isn't mtkit's.
            pieces.append(piece if piece not in taken else f"<row {row}: {piece}>")
            rows.append(row)
            taken.add(pieces[-1])
    for model in models:
        for one in read_proto(model).pieces:
            if one.type in (_Piece.CONTROL, _Piece.UNKNOWN) or one.piece in taken:
                continue
            if one.piece not in ids:
                pieces.append(one.piece)
                rows.append(special.unk)
                taken.add(one.piece)
    # A shared row belongs to one token when it is written: never to `<s>`.
    order = (PAD, UNK, EOS, *range(len(SPECIAL_PIECES), len(pieces)), BOS)
    first: dict[int, int] = {}
    for token in order:
        first.setdefault(rows[token], token)
    hidden = tuple(token for token, row in enumerate(rows) if first[row] != token)
    return ArrangedPieces(tuple(pieces), tuple(rows), hidden)


def read_piece_of_row(piece: str) -> str:
    """Returns the original piece of a name from `arrange_pieces`; empty without one."""
    found = _NAME_OF_ROW.fullmatch(piece)
    return piece if found is None else found[1] or ""


def reorder_model(
    model: bytes, pieces: Sequence[str], *, symbols: Collection[str] = (), writes: bool
) -> bytes:
    """Returns a SentencePiece model that segments text as another does, with other ids.

    Args:
        model: The other model, serialised.
        pieces: All pieces by id, mtkit's special ones first; they include the model's.
        symbols: Pieces that never occur in segmented or decoded text.
        writes: Whether tokens are decoded: then pieces that the model doesn't know are written as
            they are spelled.
    """
    proto = read_proto(model)
    known = {
        one.piece: one
        for one in proto.pieces
        if one.type not in (_Piece.CONTROL, _Piece.UNKNOWN) and one.piece not in SPECIAL_PIECES
    }
    lacks = _Piece.UNUSED if writes else _Piece.CONTROL
    # BPE merges the piece with the best score first, even an unused one.
    lowest = min((one.score for one in known.values()), default=0.0) - 1.0
    arranged: list[Any] = []
    for token, piece in enumerate(pieces):
        if token == UNK:
            arranged.append(_Piece(piece=piece, score=0.0, type=_Piece.UNKNOWN))
        elif token < len(SPECIAL_PIECES) or piece in symbols or piece.startswith("<row "):
            arranged.append(_Piece(piece=piece, score=0.0, type=_Piece.CONTROL))
        elif piece in known:
            arranged.append(known[piece])
        else:
            arranged.append(_Piece(piece=piece, score=lowest, type=lacks))
    spec = proto.trainer_spec
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD, UNK, BOS, EOS
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIAL_PIECES
    return write_pieces(proto, arranged)


def list_ordinary_pieces(model: bytes) -> list[str]:
    """Returns the pieces of a SentencePiece model without control symbols and the unknown piece."""
    return [
        str(one.piece)
        for one in read_proto(model).pieces
        if one.type not in (_Piece.CONTROL, _Piece.UNKNOWN)
    ]


def make_bpe_model(
    vocabulary: Collection[str], merges: Sequence[Sequence[str]], charsmap: str
) -> bytes:
    """Returns a SentencePiece model with a list of merges, best first.

    Pieces in `vocabulary` that no merge makes are single characters, or never used. `charsmap` is
    SentencePiece's normalisation table in base64; empty for none. A ValueError for other text.
    """
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault("".join(pair), rank)
    proto = ModelProto()
    special = ("<unk>", "<s>", "</s>")
    for piece in special:
        kind = _Piece.UNKNOWN if piece == "<unk>" else _Piece.CONTROL
        proto.pieces.append(_Piece(piece=piece, score=0.0, type=kind))
    for piece in vocabulary:
        if piece not in (*special, "<pad>"):
            score = -float(ranks.get(piece, len(ranks)))
            proto.pieces.append(_Piece(piece=piece, score=score, type=_Piece.NORMAL))
    proto.trainer_spec.model_type = proto.trainer_spec.BPE
    proto.trainer_spec.vocab_size = len(proto.pieces)
    normalizer = proto.normalizer_spec
    normalizer.name = "nmt_nfkc" if charsmap else "identity"
    normalizer.precompiled_charsmap = b64decode(charsmap, validate=True)
    return bytes(proto.SerializeToString())


def leave_out_unknown(model: bytes) -> bytes:
    """Returns a model from `reorder_model` without the pieces that the other program's lacked.

    It then segments and joins by strings alone, as that program does.
    """
    proto = read_proto(model)
    kept = [
        one
        for one in proto.pieces
        if one.piece in SPECIAL_PIECES or one.type not in (_Piece.CONTROL, _Piece.UNUSED)
    ]
    return write_pieces(proto, kept)


def restore_model(model: bytes) -> bytes:
    """Returns a model from `reorder_model` with SentencePiece's own special pieces.

    These are `<unk>`, `<s>` and `</s>`, in that order, without padding.
    """
    proto = read_proto(leave_out_unknown(model))
    by_piece = {one.piece: one for one in proto.pieces}
    special = [by_piece[SPECIAL_PIECES[token]] for token in (UNK, BOS, EOS)]
    pieces = [*special, *(one for one in proto.pieces if one.piece not in SPECIAL_PIECES)]
    spec = proto.trainer_spec
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = 0, 1, 2, -1
    return write_pieces(proto, pieces)


def check_ids(ids: Mapping[str, int], num_rows: int, origin: str) -> None:
    """Checks that a list of pieces fits an embedding, without duplicate ids."""
    fault = next(_list_faults(ids, num_rows), None)
    if fault is not None:
        raise MtkitError(f"{origin}: {fault}", "copy the complete folder again")


def _list_faults(ids: Mapping[str, int], num_rows: int) -> Iterator[str]:
    seen: dict[int, str] = {}
    for piece, row in ids.items():
        name = shorten(piece, 40)
        if not 0 <= row < num_rows:
            yield f"piece '{name}' has id {row}, but the model has {num_rows:,} pieces"
        if row in seen:
            yield f"pieces '{shorten(seen[row], 40)}' and '{name}' have the same id {row}"
        seen[row] = piece


def read_proto(model: bytes) -> Any:
    """Returns a serialised SentencePiece model as its protobuf."""
    proto = ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError as error:
        raise MtkitError(
            "damaged tokenizer: not a SentencePiece model",
            "copy the complete folder again from where it came from",
        ) from error
    return proto


def write_pieces(proto: Any, pieces: Sequence[Any]) -> bytes:
    """Returns a serialised SentencePiece model with other pieces, by id."""
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    proto.trainer_spec.vocab_size = len(pieces)
    return bytes(proto.SerializeToString())
