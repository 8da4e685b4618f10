"""Fine-tuning: the weights of a trained model as the start of another training."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.model.digest import reading
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.model.parameters import find_rows
from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.recipe.model import Model
from mtkit.recipe.training import StartFrom
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import Vocabulary

_FREE_KEYS = ("dropout", "attention_dropout", "activation_dropout")
"""Keys of `[model]` that no weight depends on."""
_COMPUTED_KEYS = ("d_key", "d_value")


def start_from(recipe: Recipe, model: EncoderDecoder, tokenizer: SubwordTokenizer) -> None:
    """Sets a new model's weights to those that its recipe starts from.

    A vector belongs to its piece, wherever that stands. A piece that the other model lacks keeps
    the vector that chance gave it, rather than the mean of all: it is told from others at once, and
    twenty such pieces cost a trained model less than 0.005 nats a token before the first update.
    So do positions past those that the other model learned.

    Raises:
        MtkitError: No model there, one of another shape, or one whose vocabulary isn't that of the
            run's data, though it should be kept.
    """
    settings = recipe.training.start_from
    assert settings is not None
    start = _load(settings)
    _check_shape(settings, recipe.model, start.config.model)
    if settings.vocabulary == "keep":
        _check_kept(settings, start.tokenizer, tokenizer)
    source = _match(tokenizer.source_vocabulary, start.tokenizer.source_vocabulary)
    target = _match(tokenizer.target_vocabulary, start.tokenizer.target_vocabulary)
    theirs = dict(start.model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            match find_rows(name):
                case "source pieces":
                    _copy_rows(weight, theirs[name], source)
                case "target pieces":
                    _copy_rows(weight, theirs[name], target)
                case "positions":
                    weight[: len(theirs[name])] = theirs[name].to(weight)
                case None:
                    weight.copy_(theirs[name])
    _report(recipe, settings, start, {"source": source, "target": target}, tokenizer)


def _load(settings: StartFrom) -> LoadedModel:
    if not settings.model.is_dir():
        raise MtkitError(
            f"{settings.model}: no such folder (training.start_from.model)",
            "name a model folder, such as another run's model/; a relative path in a recipe starts "
            "from data.data_root",
        )
    with reading(settings.model):
        return load_model_folder(settings.model)


def _check_shape(settings: StartFrom, wanted: Model, found: Model) -> None:
    """Checks that weights of one network fit another, position vectors aside."""
    ours, theirs = dict(wanted), dict(found)
    differing = [key for key in ours if key not in _FREE_KEYS and ours[key] != theirs[key]]
    is_reached = found.positions == "sinusoidal" or wanted.max_positions > found.max_positions
    if "max_positions" in differing and is_reached:
        differing.remove("max_positions")
    # A width per head that is computed differs because of what it is computed from.
    for key in _COMPUTED_KEYS:
        is_computed = key not in wanted.model_fields_set
        if key in differing and is_computed and theirs[key] == found.d_model // found.num_heads:
            differing.remove(key)
    if differing:
        faults = (f"model.{key} = {ours[key]}, but {theirs[key]} there" for key in differing)
        raise MtkitError(
            f"{settings.model}: a network of another shape than this recipe's: "
            + "; ".join(faults),
            " ".join(f"--set model.{key}={theirs[key]}" for key in differing),
        )


def _check_kept(settings: StartFrom, start: SubwordTokenizer, tokenizer: SubwordTokenizer) -> None:
    """Checks that a vocabulary is that of the model, with or without more pieces behind it."""
    for ours, theirs in (
        (tokenizer.source_vocabulary.pieces, start.source_vocabulary.pieces),
        (tokenizer.target_vocabulary.pieces, start.target_vocabulary.pieces),
    ):
        if ours[: len(theirs)] != theirs:
            raise MtkitError(
                f"{settings.model}: this model's vocabulary is no longer that of the prepared data",
                "run `mtkit prepare` again",
            )


def _match(ours: Vocabulary, theirs: Vocabulary) -> dict[int, int]:
    """Returns their id of each piece that both vocabularies have, by our id."""
    ids = theirs.ids
    return {token: ids[piece] for token, piece in enumerate(ours.pieces) if piece in ids}


def _copy_rows(weight: Tensor, theirs: Tensor, matched: Mapping[int, int]) -> None:
    weight[list(matched)] = theirs[list(matched.values())].to(weight)


def _report(
    recipe: Recipe,
    settings: StartFrom,
    start: LoadedModel,
    matched: Mapping[str, Mapping[int, int]],
    tokenizer: SubwordTokenizer,
) -> None:
    sizes = tokenizer.vocab_sizes
    has_new = any(size > len(matched[side]) for side, size in sizes.items())
    if tokenizer.is_joint and matched["source"] == matched["target"]:
        counts = f"{len(matched['source']):,} of {sizes['source']:,} pieces"
    else:
        counts = " and ".join(
            f"{len(matched[side]):,} of {size:,} {side} pieces" for side, size in sizes.items()
        )
    say(
        f"starting from {settings.model}, which knows {counts}"
        + ("; the others start from random vectors" if has_new else "")
    )
    languages = (start.config.source_language, start.config.target_language)
    if languages != recipe.data.languages:
        say(
            f"that model translates {languages[0]}-{languages[1]}; what it learned is carried over "
            f"to {'-'.join(recipe.data.languages)}"
        )
    if has_new and "embeddings" in recipe.training.freeze:
        warn(
            "training.freeze holds the embeddings: pieces that the model doesn't know keep vectors "
            "of chance"
        )
