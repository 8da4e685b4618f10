"""Adds symbols to the vocabularies of a tokenizer, after its pieces, which keep their ids."""

from collections.abc import Iterable, Sequence

import sentencepiece

# protobuf creates the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.errors import MtkitError
from mtkit.text.arrange_pieces import read_proto
from mtkit.text.languages import ModelLanguages, find_language
from mtkit.text.tokenizer import SubwordTokenizer


def extend_vocabulary(
    tokenizer: SubwordTokenizer,
    *,
    tags: Sequence[str] = (),
    symbols: Sequence[str] = (),
    languages: Sequence[str] = (),
    punctuation: tuple[str, str] | None = None,
) -> SubwordTokenizer:
    """Returns a tokenizer with more symbols; its old pieces keep their ids.

    Args:
        tokenizer: The one to extend; not changed.
        tags: More strings that may precede a source; in the target's vocabulary only if it is
            joint.
        symbols: Strings that are always one piece, on both sides.
        languages: Codes of languages that get pieces, if the others have them.
        punctuation: As in `SubwordTokenizer`.
    """
    source, target = tokenizer.models
    of_source = list(dict.fromkeys((*tags, *symbols)))
    of_target = of_source if tokenizer.is_joint else list(dict.fromkeys(symbols))
    known = tokenizer.languages if tokenizer.has_language_pieces else None
    added = {} if known is None else _name_pieces(languages, known)
    if known is not None and added:
        known = ModelLanguages.of_pieces({**known.target, **added}, known.source_place)
    return SubwordTokenizer(
        _add_controls(_add_symbols(source, of_source), added.values()),
        _add_controls(_add_symbols(target, of_target), added.values()),
        tags=list(dict.fromkeys((*tokenizer.tags, *tags))),
        punctuation=punctuation,
        looks_up_unknown=tokenizer.looks_up_unknown,
        # Languages of tags are derived again, with the new ones.
        languages=known,
        foreign_rows=tokenizer.foreign_rows,
        masks=tokenizer.masks,
        unknown=tokenizer.unknown,
    )


def _name_pieces(codes: Sequence[str], known: ModelLanguages) -> dict[str, str]:
    """Returns a piece for each language without one, in the others' form."""
    has_underscored_languages = all(piece == f"__{code}__" for code, piece in known.target.items())
    return {
        code: f"__{code}__" if has_underscored_languages else code
        for code in codes
        if not find_language(code, tuple(known.target))
    }


def _add_controls(model: bytes, pieces: Iterable[str]) -> bytes:
    """Returns a SentencePiece model with more control symbols, which text never contains."""
    proto = read_proto(model)
    indices = {piece.piece: index for index, piece in enumerate(proto.pieces)}
    wanted = list(pieces)
    for piece in wanted:
        if piece in indices:
            raise MtkitError(
                f"'{piece}' is already a piece of the vocabulary that training starts from",
                "choose another code for the language",
            )
        proto.pieces.add(piece=piece, score=0.0, type=ModelProto.SentencePiece.CONTROL)
    return bytes(proto.SerializeToString()) if wanted else model


def _add_symbols(model: bytes, symbols: Sequence[str]) -> bytes:
    """Returns a SentencePiece model that makes each symbol one piece."""
    # In a unigram model a piece that contains a symbol could win against it, as `singer` against
    # `ing`: such pieces keep their ids and become unused.
    proto = read_proto(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    specials = {getattr(processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")}
    indices = {piece.piece: index for index, piece in enumerate(proto.pieces)}
    changed = False
    for symbol in symbols:
        index = indices.get(symbol)
        if index is None:
            proto.pieces.add(piece=symbol, score=0.0, type=ModelProto.SentencePiece.USER_DEFINED)
        elif index in specials or proto.pieces[index].type == ModelProto.SentencePiece.BYTE:
            raise MtkitError(
                f"'{symbol}' is a special piece of the vocabulary that training starts from",
                "choose another name for that tag or symbol",
            )
        elif proto.pieces[index].type != ModelProto.SentencePiece.USER_DEFINED:
            # As an ordinary piece it would only win if no longer one matched.
            proto.pieces[index].type = ModelProto.SentencePiece.USER_DEFINED
        else:
            continue
        changed = True
    if changed and proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
        for piece in proto.pieces:
            if piece.type == piece.NORMAL and any(symbol in piece.piece for symbol in symbols):
                piece.type = piece.UNUSED
    return bytes(proto.SerializeToString()) if changed else model
