"""Fine-tuning: the weights of a trained model as the start of another training."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.inference.identity import reading
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.recipe.model import Model
from mtkit.recipe.training import StartFrom
from mtkit.text.tokenizer import SubwordTokenizer

_FREE_KEYS = ("dropout", "attention_dropout", "activation_dropout")
"""Keys of `[model]` that no weight depends on."""
_COMPUTED_KEYS = ("d_key", "d_value")
_SOURCE_ROWS = ("source_embedding.tokens.weight",)
_TARGET_ROWS = ("target_embedding.tokens.weight", "output_embedding.weight", "output_bias")
_POSITIONS = ("source_embedding.positions.weight", "target_embedding.positions.weight")


def start_from(recipe: Recipe, model: EncoderDecoder, tokenizer: SubwordTokenizer) -> None:
    """Leaves a new model with the weights that its recipe starts from.

    A vector belongs to its piece, wherever that stands. A piece that the other model lacks keeps
    the vector that chance gave it, rather than the mean of all: it is told from others at once, and
    twenty such pieces cost a trained model less than 0.005 nats a token before the first update.
    So do positions past those that the other model learned.

    Args:
        recipe: The run's recipe, which has `training.start_from`.
        model: The run's model, freshly initialised.
        tokenizer: The run's tokenizer.

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
    source = _match(tokenizer.source_pieces, start.tokenizer.source_pieces)
    target = _match(tokenizer.target_pieces, start.tokenizer.target_pieces)
    weights = dict(start.model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name in _SOURCE_ROWS:
                _copy_rows(weight, weights[name], source)
            elif name in _TARGET_ROWS:
                _copy_rows(weight, weights[name], target)
            elif name in _POSITIONS:
                weight[: len(weights[name])] = weights[name].to(weight)
            else:
                weight.copy_(weights[name])
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
    """Checks that weights of one network fit another, position vectors aside.

    Raises:
        MtkitError: They don't; it names every key that differs.
    """
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
        (tokenizer.source_pieces, start.source_pieces),
        (tokenizer.target_pieces, start.target_pieces),
    ):
        if ours[: len(theirs)] != theirs:
            raise MtkitError(
                f"{settings.model}: this model's vocabulary is no longer that of the prepared data",
                "run `mtkit prepare` again",
            )


def _match(pieces: Sequence[str], known: Sequence[str]) -> dict[int, int]:
    """Returns the token of each piece that a vocabulary knows, by our token."""
    theirs = {piece: token for token, piece in reversed(list(enumerate(known)))}
    return {token: theirs[piece] for token, piece in enumerate(pieces) if piece in theirs}


def _copy_rows(weight: Tensor, theirs: Tensor, matched: Mapping[int, int]) -> None:
    weight[list(matched)] = theirs[list(matched.values())].to(weight)


def _report(
    recipe: Recipe,
    settings: StartFrom,
    start: LoadedModel,
    matched: Mapping[str, Mapping[int, int]],
    tokenizer: SubwordTokenizer,
) -> None:
    sizes = {"source": tokenizer.source_vocab_size, "target": tokenizer.target_vocab_size}
    num_new = {side: size - len(matched[side]) for side, size in sizes.items()}
    if tokenizer.is_joint and matched["source"] == matched["target"]:
        counts = f"{len(matched['source']):,} of {sizes['source']:,} pieces"
    else:
        counts = " and ".join(
            f"{len(matched[side]):,} of {size:,} {side} pieces" for side, size in sizes.items()
        )
    say(
        f"starting from {settings.model}, which knows {counts}"
        + ("; the others start anew" if any(num_new.values()) else "")
    )
    languages = (start.config.source_language, start.config.target_language)
    if languages != (recipe.data.source_language, recipe.data.target_language):
        say(
            f"that model translates {languages[0]}-{languages[1]}; what it learned is carried over "
            f"to {recipe.data.source_language}-{recipe.data.target_language}"
        )
    if any(num_new.values()) and "embeddings" in recipe.training.freeze:
        warn(
            "training.freeze holds the embeddings: pieces that the model doesn't know keep vectors "
            "of chance"
        )
