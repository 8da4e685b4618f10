"""The vocabulary of the model that training starts from, with the symbols that it lacks.

Pieces keep their ids, and so their vectors; what is added stands behind them.
"""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

# protobuf makes the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.errors import MtkitError
from mtkit.files import digest_file
from mtkit.recipe import Recipe
from mtkit.text.tokenizer import TOKENIZER_FILES, SubwordTokenizer, read_model


def digest_kept(folder: Path) -> dict[str, str]:
    """Returns a digest of each file of a model folder that its vocabulary depends on.

    Raises:
        MtkitError: One is a link to another place, or larger than it can be.
    """
    names = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    for name in names:
        read_model(folder / name)
    return {name: digest_file(folder / name) for name in names}


def read_reused(folder: Path, recipe: Recipe) -> SubwordTokenizer:
    """Returns the tokenizer of the model that a recipe starts from.

    Raises:
        MtkitError: There is none, it is damaged, or the recipe wants one vocabulary where it has
            two, or the reverse.
    """
    if not digest_kept(folder):
        raise MtkitError(
            f"{folder}: no model here, whose vocabulary could be kept (training.start_from.model)",
            "name a model folder, such as another run's model/; a relative path in a recipe starts "
            "from data.data_root",
        )
    tokenizer = SubwordTokenizer.load(folder)
    if tokenizer.is_joint != recipe.tokenizer.joint:
        found, wanted, mend = (
            ("one vocabulary for both languages", "false", "--set tokenizer.joint=true")
            if tokenizer.is_joint
            else (
                "a vocabulary for each language",
                "true",
                "--set tokenizer.joint=false, and model.tied_embeddings as in its config.json",
            )
        )
        raise MtkitError(
            f"{folder}: this model has {found}, but tokenizer.joint = {wanted}",
            f"{mend}; or train a vocabulary anew: --set training.start_from.vocabulary=new",
        )
    return tokenizer


def extend_vocabulary(
    tokenizer: SubwordTokenizer,
    *,
    tags: Sequence[str] = (),
    symbols: Sequence[str] = (),
    punctuation: tuple[str, str] | None = None,
) -> SubwordTokenizer:
    """Returns a tokenizer that knows more symbols; the pieces that it had keep their ids.

    Args:
        tokenizer: The one to extend; it stays as it is.
        tags: Strings that may stand before a source, beside those that it knows; added to the
            target's vocabulary only where that is the source's too.
        symbols: Strings that shall always be one piece, on both sides.
        punctuation: As `SubwordTokenizer` takes it.

    Raises:
        MtkitError: A symbol is a special piece of the vocabulary.
    """
    source, target = tokenizer.models
    extended = _add_symbols(source, list(dict.fromkeys((*tags, *symbols))))
    return SubwordTokenizer(
        extended,
        extended if tokenizer.is_joint else _add_symbols(target, list(dict.fromkeys(symbols))),
        tags=list(dict.fromkeys((*tokenizer.tags, *tags))),
        punctuation=punctuation,
    )


def _add_symbols(model: bytes, symbols: Sequence[str]) -> bytes:
    """Returns a SentencePiece model that makes each symbol one piece.

    In a unigram model a piece that holds a symbol could win against it, as `singer` against `ing`:
    such pieces keep their ids, and are never used again.
    """
    proto = ModelProto()
    proto.ParseFromString(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    specials = {getattr(processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")}
    places = {piece.piece: place for place, piece in enumerate(proto.pieces)}
    changed = False
    for symbol in symbols:
        place = places.get(symbol)
        if place is None:
            proto.pieces.add(piece=symbol, score=0.0, type=ModelProto.SentencePiece.USER_DEFINED)
        elif place in specials or proto.pieces[place].type == ModelProto.SentencePiece.BYTE:
            raise MtkitError(
                f"'{symbol}' is a special piece of the vocabulary that training starts from",
                "take another name for that tag or symbol",
            )
        elif proto.pieces[place].type != ModelProto.SentencePiece.USER_DEFINED:
            # As an ordinary piece it would only be found where no longer one is.
            proto.pieces[place].type = ModelProto.SentencePiece.USER_DEFINED
        else:
            continue
        changed = True
    if changed and proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
        for piece in proto.pieces:
            if piece.type == piece.NORMAL and any(symbol in piece.piece for symbol in symbols):
                piece.type = piece.UNUSED
    content: bytes = proto.SerializeToString() if changed else model
    return content
