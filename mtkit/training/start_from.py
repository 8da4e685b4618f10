"""Fine-tuning: starts a training from the weights of trained models or of their parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

import torch

from mtkit.console import say, warn
from mtkit.data.tokenizer_choice import check_start
from mtkit.errors import MtkitError
from mtkit.model.card import find_licence
from mtkit.model.config import ModelConfig
from mtkit.model.digest import reading
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.model.importers.translator_folder import HIDDEN_BIAS
from mtkit.model.parameters import Side, find_counterpart, find_rows, find_side, rename_layer
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, Network
from mtkit.network.embeddings import LearnedPositions
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ClassifierKind, Objective
from mtkit.recipe.start_from import StartFrom, StartKey
from mtkit.recipe.tables import relative_to_root
from mtkit.recipe.training import Training
from mtkit.text.learn_pieces import spell_pieces
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.vocabulary import Vocabulary

_FREE_KEYS = ("architecture", "dropout", "attention_dropout", "activation_dropout", "initial_std")
"""Keys of `[model]` that no trained weight depends on. `architecture` is checked separately."""
_KEYS_OF_SIDE: dict[Side, tuple[str, ...]] = {
    "encoder": ("num_encoder_layers",),
    "decoder": ("num_decoder_layers", "tied_embeddings", "output_bias"),
}
"""Keys of `[model]` that only one side's weights depend on."""
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
        key: Its key in `[training.start_from]`.
        tokenizer: The new model's.
        extends: Whether new pieces get the mean vector of the pieces that spell them.
        wanted: The new model's shape.
    """

    key: StartKey
    folder: Path
    loaded: LoadedModel
    tokenizer: SubwordTokenizer
    extends: bool
    wanted: Model

    @cached_property
    def matched(self) -> dict[Side, dict[int, int]]:
        """The model's id of each piece that both vocabularies of a side have, by our id."""
        found: dict[Side, dict[int, int]] = {}
        for side in _SIDES[self.key]:
            ids = find_vocabulary(side, self.loaded.tokenizer).ids
            ours = enumerate(find_vocabulary(side, self.tokenizer).pieces)
            found[side] = {token: ids[piece] for token, piece in ours if piece in ids}
        return found

    @cached_property
    def made_of(self) -> dict[Side, dict[int, list[int]]]:
        """For each side, the ids of the pieces whose mean is a new piece's vector, by our id.

        Pieces that keep a random vector are missing.
        """
        return {
            side: find_spelling(side, self.tokenizer, self.loaded, matched) if self.extends else {}
            for side, matched in self.matched.items()
        }

    @cached_property
    def layers(self) -> dict[Side, list[int]]:
        """For each side, the model's layer that each of ours starts from, counted from 0.

        Fewer layers are spread from the model's first to its last (arXiv 2010.13002).
        """
        return {
            side: [round(index * (theirs - 1) / max(1, ours - 1)) for index in range(ours)]
            for side in self.matched
            for ours, theirs in [self.count_layers(side)]
        }

    def count_layers(self, side: Side) -> tuple[int, int]:
        """Returns the number of our layers and of the model's."""
        key = _KEYS_OF_SIDE[side][0]
        return getattr(self.wanted, key), getattr(self.loaded.config.model, key)


def start_from(
    training: Training,
    config: ModelConfig,
    model: Network,
    tokenizer: SubwordTokenizer,
    *,
    reports: bool = True,
) -> None:
    """Sets a new model's weights to those that `training.start_from` names.

    Vectors are matched by piece, not by id. A piece that the other model lacks keeps its random
    vector, not the mean of all vectors: it differs from the others at once, and twenty such pieces
    cost a trained model less than 0.005 nats per token before the first update. An extended
    vocabulary has many new pieces; each gets the mean of those that spell it. Positions past those
    that the other model learned keep their random vectors too, and so does every part without a
    start.
    """
    settings = training.start_from
    assert settings is not None
    check_start(settings)
    starts = []
    for key, folder in settings.folders.items():
        extends = settings.vocabulary == "extend"
        start = _Start(key, folder, _load(folder), tokenizer, extends, config.model)
        if config.classifier is not None:
            _check_classifier(config.classifier.kind, start)
        else:
            _check_kind(config.objective, model, start)
        _check_shape(start, same_depth=training.lora is not None)
        if settings.vocabulary != "new":
            _check_kept(start)
        starts.append(start)
    if config.model.tied_embeddings == "three-way":
        _check_shared_matrix(starts)
    with torch.no_grad():
        for start in starts:
            _copy(start, model)
            _fold_segment(start, model)
    if reports:
        _report(training, (config.source_language, config.target_language), starts)


def describe_start(settings: StartFrom | None, root: str) -> dict[str, str]:
    """Returns a model card's fact on the origin of the weights, by name; empty for random ones.

    Folders are named relative to `root`.
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
    """Returns the licences of the models that a recipe starts from, from their cards."""
    folders = [] if settings is None else settings.folders.values()
    return ", ".join(dict.fromkeys(filter(None, map(find_licence, folders))))


def _load(folder: Path) -> LoadedModel:
    with reading(folder):
        return load_model_folder(folder)


def _check_kind(objective: Objective, model: Network, start: _Start) -> None:
    """Checks that a model has the requested sides, and that ours has them too."""
    key, found, found_objective = start.key, start.loaded.model, start.loaded.config.objective
    if not isinstance(model, EncoderDecoder):
        if key != "model":
            raise MtkitError(
                f"training.start_from.{key}: this recipe's network has only {_HAS[type(model)]}",
                "name a model of the same kind as training.start_from.model",
            )
        fits = type(found) is type(model)
    else:
        fits = isinstance(found, EncoderDecoder) or found_objective != "classification"
    if not fits:
        raise MtkitError(
            f'{start.folder}: a model of objective = "{found_objective}", but this recipe has '
            f'"{objective}" (training.start_from.{key})',
            "name a model of the same objective",
        )
    if not isinstance(model, EncoderDecoder) or isinstance(found, EncoderDecoder):
        return
    side: Side = "decoder" if isinstance(found, CausalLanguageModel) else "encoder"
    if key != side:
        kind = "a translator" if found_objective == "translation" else "a language model"
        raise MtkitError(
            f"{start.folder}: {kind} with only {_HAS[type(found)]} (training.start_from.{key})",
            f"name it as training.start_from.{side}: a part that no model is named for starts "
            "from random weights",
        )


def _check_classifier(wanted: ClassifierKind, start: _Start) -> None:
    """Checks that a model fits a classifier: its language model, or such a classifier."""
    classifier = start.loaded.config.classifier
    found = start.loaded.config.objective if classifier is None else classifier.kind
    if found != wanted:
        raise MtkitError(
            f'{start.folder}: a model of objective = "{found}", but training.classification.kind = '
            f'"{wanted}" (training.start_from.model)',
            f"--set training.classification.kind={found}"
            if found in get_args(ClassifierKind)
            else "name a masked or a causal language model, or a classifier",
        )


def _check_shape(start: _Start, *, same_depth: bool) -> None:
    """Checks that weights of one network fit another, except for position vectors.

    A recipe that sets fewer layers gets some of the model's, unless `same_depth`.
    """
    key, wanted, found = start.key, start.wanted, start.loaded.config.model
    ours, theirs = dict(wanted), dict(found)
    left_out = set(_FREE_KEYS)
    for side, names in _KEYS_OF_SIDE.items():
        left_out.update(names if side not in _SIDES[key] else ())
        depth = names[0]
        if not same_depth and depth in wanted.model_fields_set and ours[depth] < theirs[depth]:
            left_out.add(depth)
    if key == "decoder" and (wanted.tied_embeddings == "none" or found.tied_embeddings != "none"):
        # Both outputs are tied, or a separate matrix may begin as a copy.
        left_out.add("tied_embeddings")
    if found.positions != "learned" or wanted.max_positions > found.max_positions:
        left_out.add("max_positions")
    # A computed width per head differs because of its inputs.
    for name in set(_COMPUTED_KEYS) - wanted.model_fields_set:
        if theirs[name] == found.d_model // found.num_heads:
            left_out.add(name)
    differing = [name for name in ours if name not in left_out and ours[name] != theirs[name]]
    if differing:
        faults = (
            f"model.{name} = {_write(ours[name])}, but the model has {_write(theirs[name])}"
            for name in differing
        )
        raise MtkitError(
            f"{start.folder}: this model's shape differs from the recipe's: " + "; ".join(faults),
            " ".join(f"--set model.{name}={_write(theirs[name])}" for name in differing),
        )


def _write(value: object) -> str:
    """Returns a value as `--set` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_shared_matrix(starts: Sequence[_Start]) -> None:
    """Checks that a matrix shared by both sides doesn't start from two models."""
    if len(starts) < 2:
        return
    first, second = (start.folder for start in starts)
    if first.resolve() != second.resolve():
        raise MtkitError(
            f'model.tied_embeddings = "three-way" has one matrix for both sides, but {first} and '
            f"{second} have one each",
            "--set model.tied_embeddings=decoder",
        )


def _check_kept(start: _Start) -> None:
    """Checks that a vocabulary is the model's, optionally with more pieces at its end."""
    both = start.tokenizer, start.loaded.tokenizer
    for side in _SIDES[start.key]:
        ours, theirs = (find_vocabulary(side, one).pieces for one in both)
        if ours[: len(theirs)] != theirs:
            raise MtkitError(
                f"{start.folder}: this model's vocabulary no longer matches the prepared data",
                "run `mtkit prepare` again",
            )


def _copy(start: _Start, model: Network) -> None:
    """Copies the weights of a start's sides, as far as it has them."""
    theirs = dict(start.loaded.model.named_parameters(remove_duplicate=False))
    has_cross_attention = isinstance(start.loaded.model, EncoderDecoder)
    for name, weight in model.named_parameters(remove_duplicate=False):
        side = find_side(name)
        counterpart = find_counterpart(name, has_cross_attention=has_cross_attention)
        # A model may lack cross-attention or the next-sentence head. Another classifier's labels
        # are its own.
        if side not in start.matched or name.startswith("classifier."):
            continue
        found = theirs.get(rename_layer(counterpart, start.layers[side]))
        if found is None:
            continue
        match find_rows(name):
            case "source pieces" | "target pieces":
                matched = start.matched[side]
                weight[list(matched)] = found[list(matched.values())].to(weight)
                for token, parts in start.made_of[side].items():
                    weight[token] = found[parts].mean(0).to(weight)
            case "positions":
                weight[: len(found)] = found.to(weight)
            case None:
                weight.copy_(found)


def _fold_segment(start: _Start, model: Network) -> None:
    """Adds a masked model's first segment vector to a translator's position or piece vectors."""
    # A translator has no segments. With learned positions the encoder's output is bit-identical.
    # Other positions can't hold the vector; then all source pieces get it.
    theirs = start.loaded.model
    if not isinstance(theirs, MaskedLanguageModel) or not isinstance(model, EncoderDecoder):
        return
    assert theirs.source_embedding.segments is not None
    embedding = model.source_embedding
    segment = theirs.source_embedding.segments.weight[0].to(embedding.tokens.weight)
    if isinstance(embedding.positions, LearnedPositions):
        embedding.positions.weight.add_(segment)
    else:
        # In a matrix shared with the output it changes all logits equally, so no probability
        # changes.
        embedding.tokens.weight.add_(segment / embedding.tokens.scale)


def _report(
    training: Training,
    languages: tuple[str, str],
    starts: Sequence[_Start],
) -> None:
    """Prints what starts from which model, and what from random weights."""
    has_new = False
    for start in starts:
        counts, lacks = _count_pieces(start)
        part = "" if start.key == "model" else f"the {start.key} "
        vectors = "random vectors"
        if any(start.made_of.values()):
            vectors = "the vectors of the pieces that spell them"
        others = f"; the others start from {vectors}" if lacks else ""
        say(f"starting {part}from {start.folder}, which has {counts}{others}")
        has_new = has_new or lacks
        _report_layers(start)
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


def _count_pieces(start: _Start) -> tuple[str, bool]:
    """Returns how many of our pieces a start has, in words, and whether it lacks any."""
    sizes = {side: len(find_vocabulary(side, start.tokenizer)) for side in start.matched}
    found = {side: len(matched) for side, matched in start.matched.items()}
    lacks = found != sizes
    [(first, matched), *others] = start.matched.items()
    if start.tokenizer.is_joint and all(other == matched for _, other in others):
        return f"{found[first]:,} of {sizes[first]:,} pieces", lacks
    counts = [
        f"{found[side]:,} of {size:,} {_VOCABULARIES[side]} pieces" for side, size in sizes.items()
    ]
    return " and ".join(counts), lacks


def _report_layers(start: _Start) -> None:
    """Prints which layers a smaller network starts from."""
    for side, layers in start.layers.items():
        ours, theirs = start.count_layers(side)
        if ours < theirs:
            numbers = ", ".join(str(layer + 1) for layer in layers)
            say(f"the {side} starts from {ours} of the model's {theirs} layers: {numbers}")


def _report_language(ours: tuple[str, str], start: _Start) -> None:
    """Prints a note if a start has other languages than the recipe."""
    theirs = start.loaded.config
    languages = (theirs.source_language, theirs.target_language)
    does = "translates" if theirs.objective == "translation" else "is of"
    part = {"model": slice(2), "encoder": slice(1), "decoder": slice(1, 2)}[start.key]
    if languages[part] != ours[part]:
        names = "-".join(dict.fromkeys(languages))
        wanted = "-".join(dict.fromkeys(ours[part]))
        say(f"that model {does} {names}; this run trains it for {wanted}")


def _list_lacking(starts: Sequence[_Start]) -> str:
    """Returns what no start has, as the beginning of a sentence, or an empty string."""
    taken = {side: start for start in starts for side in start.matched}
    if starts[0].key == "model":
        return ""
    lacking = [f"the {side}" for side in _SIDES["model"] if side not in taken]
    if "decoder" in taken and not isinstance(taken["decoder"].loaded.model, EncoderDecoder):
        lacking.append("the decoder's cross-attention")
    if len(lacking) > 1:
        return f"{' and '.join(lacking)} start"
    return f"{lacking[0]} starts" if lacking else ""


def find_spelling(
    side: Side, ours: SubwordTokenizer, loaded: LoadedModel, matched: Mapping[int, int]
) -> dict[int, list[int]]:
    """Returns the ids of a model's pieces that spell each piece that it lacks, by our id.

    A tag is made of all of the model's tags, if it has any, and a language's piece of those of all
    its languages. A piece without any known letter is missing. `matched` has the model's id of each
    piece that it has, by our id.
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
    """Returns the language pieces of a model like M2M100."""
    languages = tokenizer.languages if tokenizer.has_language_pieces else None
    return [] if languages is None else list(languages.target.values())


def _find_hidden(loaded: LoadedModel) -> set[int]:
    """Returns the tokens that a model never writes, from its output bias."""
    bias = dict(loaded.model.named_parameters()).get("output_bias")
    return set() if bias is None else set((bias <= HIDDEN_BIAS / 2).nonzero().flatten().tolist())


def find_vocabulary(side: Side, tokenizer: SubwordTokenizer) -> Vocabulary:
    """Returns the vocabulary of a side."""
    return tokenizer.source_vocabulary if side == "encoder" else tokenizer.target_vocabulary
