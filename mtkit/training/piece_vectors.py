"""The vectors of new pieces of a vocabulary, from those of the pieces that spell them."""

from collections.abc import Mapping

from mtkit.model.folder import LoadedModel
from mtkit.model.importers.translator import HIDDEN_BIAS
from mtkit.model.parameters import Side
from mtkit.text.learn_pieces import spell_pieces
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import Vocabulary


def find_spelling(
    side: Side, ours: SubwordTokenizer, loaded: LoadedModel, matched: Mapping[int, int]
) -> dict[int, list[int]]:
    """Returns the ids of a model's pieces that spell each piece that it lacks, by our id.

    A tag is made of all of the model's tags, where it has any, and a language's piece of those of
    all its languages. A piece of which the model knows no letter isn't there.

    Args:
        side: The side whose vocabularies are meant.
        ours: The tokenizer with more pieces.
        loaded: The model.
        matched: The model's id of each piece that it has, by our id.
    """
    theirs, pieces = loaded.tokenizer, find_vocabulary(side, ours).pieces
    lacking = [token for token in range(len(pieces)) if token not in matched]
    model = theirs.models[0 if side == "encoder" else 1]
    spelled = spell_pieces(model, [pieces[token] for token in lacking])
    ids, hidden = find_vocabulary(side, theirs).ids, _find_hidden(loaded)
    tags = [ids[tag] for tag in theirs.tags if tag in ids]
    languages = [ids[piece] for piece in _list_language_pieces(theirs)]
    alike = dict.fromkeys(_list_language_pieces(ours), languages) | dict.fromkeys(ours.tags, tags)
    found = {
        token: alike.get(pieces[token]) or [part for part in parts if part not in hidden]
        for token, parts in zip(lacking, spelled, strict=True)
    }
    return {token: parts for token, parts in found.items() if parts}


def _list_language_pieces(tokenizer: SubwordTokenizer) -> list[str]:
    """Returns the pieces that stand for languages, in a model of M2M100's kind."""
    languages = tokenizer.languages if tokenizer.has_language_pieces else None
    return [] if languages is None else list(languages.target.values())


def _find_hidden(loaded: LoadedModel) -> set[int]:
    """Returns the tokens that a model never writes, as its output's bias says."""
    bias = dict(loaded.model.named_parameters()).get("output_bias")
    return set() if bias is None else set((bias <= HIDDEN_BIAS / 2).nonzero().flatten().tolist())


def find_vocabulary(side: Side, tokenizer: SubwordTokenizer) -> Vocabulary:
    """Returns the vocabulary of a side."""
    if side == "encoder":
        return tokenizer.source_vocabulary
    return tokenizer.target_vocabulary
