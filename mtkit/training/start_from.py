"""Fine-tuning: the weights of trained models, or of their parts, as another training's start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.model.card import find_licence
from mtkit.model.digest import reading
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.model.parameters import Side, find_counterpart, find_rows, find_side
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, Network
from mtkit.network.positions import LearnedPositions
from mtkit.recipe import Recipe
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ClassifierKind, Objective
from mtkit.recipe.tables import relative_to_root
from mtkit.recipe.training import StartFrom, StartKey, Training
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.training.piece_vectors import find_spelling, find_vocabulary

_FREE_KEYS = ("architecture", "dropout", "attention_dropout", "activation_dropout", "initial_std")
"""Keys of `[model]` that no trained weight depends on, which network it is of apart."""
_KEYS_OF_SIDE: dict[Side, tuple[str, ...]] = {
    "encoder": ("num_encoder_layers",),
    "decoder": ("num_decoder_layers", "tied_embeddings", "output_bias"),
}
"""Keys of `[model]` that the weights of one side alone depend on."""
_COMPUTED_KEYS = ("d_key", "d_value")
_SIDES: dict[StartKey, tuple[Side, ...]] = {
    "model": ("encoder", "decoder"),
    "encoder": ("encoder",),
    "decoder": ("decoder",),
}
_VOCABULARIES: dict[Side, str] = {"encoder": "source", "decoder": "target"}
_HAS = {CausalLanguageModel: "a decoder", MaskedLanguageModel: "an encoder"}


@dataclass(frozen=True)
class _Start:
    """A model that weights are taken from.

    Attributes:
        key: The key of `[training.start_from]` that names it.
        folder: Its folder.
        loaded: The model.
        matched: For each side that is taken, the model's id of each piece that both vocabularies
            have, by the id in the new model.
        made_of: For each side, the model's ids of the pieces that a new piece's vector is the mean
            of, by the id in the new model; nothing for those that keep a random one.
    """

    key: StartKey
    folder: Path
    loaded: LoadedModel
    matched: dict[Side, dict[int, int]]
    made_of: dict[Side, dict[int, list[int]]]


def start_from(
    recipe: Recipe, model: Network, tokenizer: SubwordTokenizer, *, says: bool = True
) -> None:
    """Sets a new model's weights to those that its recipe starts from.

    Vectors are matched by piece, not by id. A piece that the other model lacks keeps its random
    vector rather than the mean of all vectors: it differs from the others at once, and twenty such
    pieces cost a trained model less than 0.005 nats per token before the first update. Where the
    vocabulary is extended, pieces are many, and each gets the mean of those that spell it.
    Positions past those that the other model learned keep their random vectors too, and so does
    every part that no start has.

    Raises:
        MtkitError: There is no model, it lacks what it is named for, it has another shape, or its
            vocabulary should be kept but isn't that of the run's data.
    """
    settings = recipe.training.start_from
    assert settings is not None
    starts = []
    for key, folder in settings.folders.items():
        loaded = _load(key, folder)
        if recipe.objective == "classification":
            _check_classifier(recipe.classification.kind, folder, loaded)
        else:
            _check_kind(recipe.objective, model, key, folder, loaded)
        _check_shape(key, folder, recipe.model, loaded.config.model)
        if settings.vocabulary != "new":
            _check_kept(key, folder, loaded.tokenizer, tokenizer)
        sides = _SIDES[key]
        matched = {side: _match(side, tokenizer, loaded.tokenizer) for side in sides}
        made_of: dict[Side, dict[int, list[int]]] = {side: {} for side in sides}
        if settings.vocabulary == "extend":
            made_of = {
                side: find_spelling(side, tokenizer, loaded, matched[side]) for side in sides
            }
        starts.append(_Start(key, folder, loaded, matched, made_of))
    if recipe.model.tied_embeddings == "three-way":
        _check_shared_matrix(starts)
    with torch.no_grad():
        for start in starts:
            _copy(start, model)
            _fold_segment(start, model)
    if says:
        _report(recipe.training, recipe.data.languages, starts, tokenizer)


def describe_start(settings: StartFrom | None, root: str) -> dict[str, str]:
    """Returns a model card's fact on where the weights started, by name; empty if from chance.

    Folders are named as they lie under `root`.
    """
    if settings is None:
        return {}
    named = {key: relative_to_root(str(path), root) for key, path in settings.folders.items()}
    phrases = [
        f"`{path}`" if key == "model" else f"{key} from `{path}`" for key, path in named.items()
    ]
    if "model" not in named:
        phrases.append("everything else from random weights")
    return {"started from": ", ".join(phrases)}


def find_start_licence(settings: StartFrom | None) -> str:
    """Returns the licences of the models that a recipe starts from, if their cards name any."""
    folders = [] if settings is None else settings.folders.values()
    return ", ".join(dict.fromkeys(filter(None, map(find_licence, folders))))


def _load(key: StartKey, folder: Path) -> LoadedModel:
    if not folder.is_dir():
        raise MtkitError(
            f"{folder}: no such folder (training.start_from.{key})",
            "name a model folder, such as another run's model/; a relative path in a recipe starts "
            "from data.data_root",
        )
    with reading(folder):
        return load_model_folder(folder)


def _check_kind(
    objective: Objective, model: Network, key: StartKey, folder: Path, start: LoadedModel
) -> None:
    """Checks that a model has the sides that are taken from it, and that ours has these."""
    if not isinstance(model, EncoderDecoder):
        if key != "model":
            raise MtkitError(
                f"training.start_from.{key}: this recipe's network is {_HAS[type(model)]} alone",
                "name a model of the same kind as training.start_from.model",
            )
        if type(start.model) is not type(model):
            raise _other_objective(objective, key, folder, start)
        return
    if isinstance(start.model, EncoderDecoder):
        return
    if start.config.objective == "classification":
        raise _other_objective(objective, key, folder, start)
    side: Side = "decoder" if isinstance(start.model, CausalLanguageModel) else "encoder"
    if key != side:
        kind = "a translator" if start.config.objective == "translation" else "a language model"
        raise MtkitError(
            f"{folder} is {kind} that is {_HAS[type(start.model)]} alone "
            f"(training.start_from.{key})",
            f"name it as training.start_from.{side}: a part that no model is named for starts "
            "from random weights",
        )


def _other_objective(
    objective: Objective, key: StartKey, folder: Path, start: LoadedModel
) -> MtkitError:
    return MtkitError(
        f'{folder}: a model of objective = "{start.config.objective}", but this recipe has '
        f'"{objective}" (training.start_from.{key})',
        "name a model of the same objective",
    )


def _check_classifier(wanted: ClassifierKind, folder: Path, start: LoadedModel) -> None:
    """Checks that a model is what a classifier is to be made of, or such a classifier."""
    classifier = start.config.classifier
    found = start.config.objective if classifier is None else classifier.kind
    if found != wanted:
        raise MtkitError(
            f'{folder}: a model of objective = "{found}", but training.classification.kind = '
            f'"{wanted}" (training.start_from.model)',
            f"--set training.classification.kind={found}"
            if found in get_args(ClassifierKind)
            else "name a masked or a causal language model, or a classifier",
        )


def _check_shape(key: StartKey, folder: Path, wanted: Model, found: Model) -> None:
    """Checks that weights of one network fit another, position vectors aside."""
    ours, theirs = dict(wanted), dict(found)
    left_out = {
        name for side, names in _KEYS_OF_SIDE.items() if side not in _SIDES[key] for name in names
    }
    if key == "decoder" and (wanted.tied_embeddings == "none" or found.tied_embeddings != "none"):
        # Both outputs are tied, or a matrix of its own may begin as a copy.
        left_out.add("tied_embeddings")
    differing = [
        name
        for name in ours
        if name not in _FREE_KEYS and name not in left_out and ours[name] != theirs[name]
    ]
    is_reached = found.positions != "learned" or wanted.max_positions > found.max_positions
    if "max_positions" in differing and is_reached:
        differing.remove("max_positions")
    # A width per head that is computed differs because of what it is computed from.
    for name in _COMPUTED_KEYS:
        is_computed = name not in wanted.model_fields_set
        if name in differing and is_computed and theirs[name] == found.d_model // found.num_heads:
            differing.remove(name)
    if differing:
        faults = (
            f"model.{name} = {ours[name]}, but the model has {theirs[name]}" for name in differing
        )
        raise MtkitError(
            f"{folder}: this model's shape differs from the recipe's: " + "; ".join(faults),
            " ".join(f"--set model.{name}={_write(theirs[name])}" for name in differing),
        )


def _write(value: object) -> str:
    """Returns a value of a key as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_shared_matrix(starts: Sequence[_Start]) -> None:
    """Checks that a matrix that both sides share isn't to start from two models."""
    if len(starts) < 2:
        return
    first, second = (start.folder for start in starts)
    if first.resolve() != second.resolve():
        raise MtkitError(
            f'model.tied_embeddings = "three-way" has one matrix for both sides, but {first} and '
            f"{second} have one each",
            "--set model.tied_embeddings=decoder",
        )


def _check_kept(
    key: StartKey, folder: Path, start: SubwordTokenizer, tokenizer: SubwordTokenizer
) -> None:
    """Checks that a vocabulary is that of the model, with or without more pieces behind it."""
    for side in _SIDES[key]:
        ours, theirs = (find_vocabulary(side, one).pieces for one in (tokenizer, start))
        if ours[: len(theirs)] != theirs:
            raise MtkitError(
                f"{folder}: this model's vocabulary no longer matches the prepared data",
                "run `mtkit prepare` again",
            )


def _match(side: Side, ours: SubwordTokenizer, theirs: SubwordTokenizer) -> dict[int, int]:
    """Returns their id of each piece that both vocabularies of a side have, by our id."""
    ids = find_vocabulary(side, theirs).ids
    pieces = find_vocabulary(side, ours).pieces
    return {token: ids[piece] for token, piece in enumerate(pieces) if piece in ids}


def _copy(start: _Start, model: Network) -> None:
    """Sets the weights of the sides that a start is named for, as far as it has them."""
    theirs = dict(start.loaded.model.named_parameters(remove_duplicate=False))
    has_cross_attention = isinstance(start.loaded.model, EncoderDecoder)
    for name, weight in model.named_parameters(remove_duplicate=False):
        side = find_side(name)
        found = theirs.get(find_counterpart(name, has_cross_attention=has_cross_attention))
        # A model may lack cross-attention, or what tells whether sentences follow one another;
        # another classifier's labels are its own.
        if side not in start.matched or found is None or name.startswith("classifier."):
            continue
        match find_rows(name):
            case "source pieces" | "target pieces":
                _copy_rows(weight, found, start.matched[side])
                for token, parts in start.made_of[side].items():
                    weight[token] = found[parts].mean(0).to(weight)
            case "positions":
                weight[: len(found)] = found.to(weight)
            case None:
                weight.copy_(found)


def _copy_rows(weight: Tensor, theirs: Tensor, matched: Mapping[int, int]) -> None:
    weight[list(matched)] = theirs[list(matched.values())].to(weight)


def _fold_segment(start: _Start, model: Network) -> None:
    """Adds the vector of a masked model's first segment to what a translator adds to each token.

    A translator has no segments. Learned positions take the vector up, so that the encoder's output
    is the same to the bit; other kinds can't, and all source pieces take it up instead.
    """
    theirs = start.loaded.model
    if not isinstance(theirs, MaskedLanguageModel) or not isinstance(model, EncoderDecoder):
        return
    assert theirs.source_embedding.segments is not None
    embedding = model.source_embedding
    segment = theirs.source_embedding.segments.weight[0].to(embedding.tokens.weight)
    if isinstance(embedding.positions, LearnedPositions):
        embedding.positions.weight.add_(segment)
    else:
        # In a matrix that the output shares, it changes all logits alike, and so no probability.
        embedding.tokens.weight.add_(segment / embedding.tokens.scale)


def _report(
    training: Training,
    languages: tuple[str, str],
    starts: Sequence[_Start],
    tokenizer: SubwordTokenizer,
) -> None:
    """Says what starts from which model, and what from random weights."""
    has_new = False
    for start in starts:
        counts, lacks = _count_pieces(start, tokenizer)
        part = "" if start.key == "model" else f"the {start.key} "
        say(
            f"starting {part}from {start.folder}, which has {counts}"
            + (f"; {_describe_lacking(start)}" if lacks else "")
        )
        has_new = has_new or lacks
        _report_language(languages, start)
    if lacking := _list_lacking(starts):
        say(f"{lacking} from random weights")
    lora = training.lora
    if has_new and lora is not None and not lora.train_embeddings:
        warn(
            "training.lora leaves the embeddings as they are: pieces that the model doesn't have "
            "keep their first vectors; --set training.lora.train_embeddings=true trains them"
        )
    if has_new and "embeddings" in training.freeze:
        warn(
            "training.freeze includes the embeddings: pieces that the model doesn't have keep "
            "their first vectors"
        )


def _describe_lacking(start: _Start) -> str:
    """Returns what the vectors of pieces are that a start lacks."""
    if not any(start.made_of.values()):
        return "the others start from random vectors"
    return "the others start from the vectors of the pieces that spell them"


def _count_pieces(start: _Start, tokenizer: SubwordTokenizer) -> tuple[str, bool]:
    """Returns how many of our pieces a start has, in words, and whether it lacks any."""
    sizes = {side: len(find_vocabulary(side, tokenizer)) for side in start.matched}
    found = {side: len(matched) for side, matched in start.matched.items()}
    lacks = found != sizes
    [(first, matched), *others] = start.matched.items()
    if tokenizer.is_joint and all(other == matched for _, other in others):
        return f"{found[first]:,} of {sizes[first]:,} pieces", lacks
    counts = [
        f"{found[side]:,} of {size:,} {_VOCABULARIES[side]} pieces" for side, size in sizes.items()
    ]
    return " and ".join(counts), lacks


def _report_language(ours: tuple[str, str], start: _Start) -> None:
    """Says whether a start is of another language than what it is trained for."""
    theirs = start.loaded.config
    languages = (theirs.source_language, theirs.target_language)
    does = "translates" if theirs.objective == "translation" else "is of"
    match start.key:
        case "model":
            wanted, differs = _name_languages(ours), languages != ours
        case "encoder":
            wanted, differs = ours[0], languages[0] != ours[0]
        case "decoder":
            wanted, differs = ours[1], languages[1] != ours[1]
    if differs:
        say(f"that model {does} {_name_languages(languages)}; this run trains it for {wanted}")


def _list_lacking(starts: Sequence[_Start]) -> str:
    """Returns what no start has, as the beginning of a sentence; empty where there is nothing."""
    taken = {side: start for start in starts for side in start.matched}
    if starts[0].key == "model":
        return ""
    lacking = [f"the {side}" for side in _SIDES["model"] if side not in taken]
    if "decoder" in taken and not isinstance(taken["decoder"].loaded.model, EncoderDecoder):
        lacking.append("the decoder's cross-attention")
    if len(lacking) > 1:
        return f"{' and '.join(lacking)} start"
    return f"{lacking[0]} starts" if lacking else ""


def _name_languages(languages: tuple[str, str]) -> str:
    """Returns a translator's languages, or a language model's one."""
    return "-".join(dict.fromkeys(languages))
