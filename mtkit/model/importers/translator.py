"""A public translator as a model folder: what all kinds of them have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtkit.errors import MtkitError, shorten
from mtkit.model.config import ModelConfig, OpenedFolder
from mtkit.model.folder import write_model_folder
from mtkit.model.importers.foreign_weights import ForeignWeights
from mtkit.model.importers.licence import Licence
from mtkit.model.parameters import Shape
from mtkit.model.transformers_names import Counterpart
from mtkit.model.translator_cards import imported_card
from mtkit.model.translator_names import (
    OUTPUT_BIAS,
    POSITIONS,
    find_embeddings,
    list_translator_counterparts,
)
from mtkit.model.weights import check_memory
from mtkit.network.embeddings import sinusoids
from mtkit.recipe.inference import Inference
from mtkit.text.arrange_pieces import ArrangedPieces
from mtkit.text.foreign_rows import ForeignRows
from mtkit.text.token_ids import PAD
from mtkit.text.tokenizer import SubwordTokenizer

HIDDEN_BIAS = -1_000.0
"""Logit of a token that the other program doesn't have: its probability is 0 in any precision."""
_SHOWN = 3
_POSITION_TABLES = (*POSITIONS.values(), *(f"{name}s" for name in POSITIONS.values()))
"""Names of fixed waves; M2M100's older files have `weights`."""


@dataclass(frozen=True)
class ForeignTranslator:
    """A public translator, read but for its weights.

    Attributes:
        config: Its config here; the network has an output bias.
        settings: Its decoding defaults.
        tokenizer: Its tokenizer.
        source: Where its source pieces come from.
        target: Where its target pieces come from; the source's where there is one vocabulary.
        has_output_bias: Whether its files have a bias of each piece's logit.
        hidden_rows: Rows of target pieces that take no probability.
    """

    config: ModelConfig
    settings: Inference
    tokenizer: SubwordTokenizer
    source: ArrangedPieces
    target: ArrangedPieces
    has_output_bias: bool
    hidden_rows: tuple[int, ...]

    @property
    def hidden(self) -> list[int]:
        """Target tokens that it can't write."""
        rows = set(self.hidden_rows)
        by_row = (token for token, row in enumerate(self.target.rows) if row in rows)
        return sorted({*self.target.hidden, *by_row})


def write_imported(
    folder: Path, translator: ForeignTranslator, weights: ForeignWeights, licence: Licence
) -> int:
    """Writes a public translator as a model folder; returns the number of its weights.

    Args:
        folder: Where to.
        translator: The translator.
        weights: Its weights, read one at a time.
        licence: Where it comes from, and under which licence.

    Raises:
        MtkitError: The weights aren't the network's.
        OSError: The disk is full, or the like.
    """
    _check(translator, weights)
    ours = _convert(translator, weights)
    tokenizer = translator.tokenizer.with_foreign_rows(_record(translator, weights))
    num_parameters = sum(tensor.numel() for tensor in ours.values())
    opened = OpenedFolder(tokenizer, translator.settings, translator.config)
    card = imported_card(
        translator.config,
        num_parameters=num_parameters,
        settings=translator.settings,
        origin=licence.origin,
        licence=licence.name,
        is_joint=translator.tokenizer.is_joint,
    )
    write_model_folder(folder, opened, weights=ours, card=card)
    return num_parameters


def _record(translator: ForeignTranslator, weights: ForeignWeights) -> ForeignRows:
    """Returns where the pieces come from, and what the bias of padding was before it was hidden."""
    bias = None
    if translator.has_output_bias and PAD in translator.hidden:
        there = OUTPUT_BIAS in weights.shapes
        bias = float(weights.read(OUTPUT_BIAS)[0, translator.target.rows[PAD]]) if there else 0.0
    return ForeignRows.of(translator.source.rows, translator.target.rows, bias)


def _expect(translator: ForeignTranslator) -> dict[str, Shape]:
    """Returns the shape of each tensor that a file must have."""
    config, shapes = translator.config, translator.config.list_shapes()
    expected = dict(_shapes_of_parts(list_translator_counterparts(config), shapes))
    sizes = {
        "source_embedding.tokens.weight": max(translator.source.rows) + 1,
        "target_embedding.tokens.weight": max(translator.target.rows) + 1,
        "output_embedding.weight": max(translator.target.rows) + 1,
    }
    for name, (first, *_) in find_embeddings(config).items():
        expected[first] = (sizes[name], config.model.d_model)
    if translator.has_output_bias:
        expected[OUTPUT_BIAS] = (1, max(translator.target.rows) + 1)
    return expected


def _shapes_of_parts(
    counterparts: list[Counterpart], shapes: Mapping[str, Shape]
) -> Mapping[str, Shape]:
    return {
        name: (shapes[one.origin][0] // len(one.names), *shapes[one.origin][1:])
        for one in counterparts
        for name in one.names
    }


def _check(translator: ForeignTranslator, weights: ForeignWeights) -> None:
    """Checks that files have a network's weights, and nothing that the network would ignore.

    Raises:
        MtkitError: They don't, or this machine hasn't the memory.
    """
    check_memory(translator.config.list_shapes().values(), weights.origin)
    expected = _expect(translator)
    found = dict(weights.shapes)
    # transformers writes a shared matrix under one of its names, or under all.
    for first, *others in find_embeddings(translator.config).values():
        for name in others:
            shape = found.pop(name, None)
            if shape is not None and first not in found:
                found[first] = shape
            elif shape is not None and not _is_same(weights, first, name):
                raise MtkitError(
                    f"{weights.origin}: {name} is another matrix than {first}, but config.json "
                    "says that they are one",
                    "is tie_word_embeddings or share_encoder_decoder_embeddings wrong?",
                )
    for name in (*_POSITION_TABLES, OUTPUT_BIAS):
        if name not in expected:
            found.pop(name, None)
    if OUTPUT_BIAS in expected:
        # transformers lets it be absent.
        found.setdefault(OUTPUT_BIAS, expected[OUTPUT_BIAS])
    faults = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    faults += [
        f"{shorten(name, 80)} has no counterpart here"
        for name in sorted(found.keys() - expected.keys())
    ]
    faults += [
        f"{name} has shape {list(found[name])}, expected {list(shape)}"
        for name, shape in sorted(expected.items())
        if name in found and found[name] != shape
    ]
    if faults:
        more = f" (and {len(faults) - _SHOWN:,} more)" if len(faults) > _SHOWN else ""
        raise MtkitError(
            f"{weights.origin}: not the weights that config.json describes: "
            + "; ".join(faults[:_SHOWN])
            + more,
            "copy the complete folder again from where it came from",
        )


def _is_same(weights: ForeignWeights, first: str, other: str) -> bool:
    if weights.shapes[first] != weights.shapes[other]:
        return False
    return weights.read(first).equal(weights.read(other))


def _convert(translator: ForeignTranslator, weights: ForeignWeights) -> dict[str, Tensor]:
    """Returns the weights by our names, in our order of pieces, in fp32."""
    _check_positions(translator, weights)
    config = translator.config
    found: dict[str, Tensor] = {}
    counterparts = {one.origin: one for one in list_translator_counterparts(config)}
    embeddings = find_embeddings(config)
    for name, shape in config.list_shapes().items():
        if name in counterparts:
            parts = [weights.read(part) for part in counterparts[name].names]
            found[name] = torch.cat(parts).to(torch.float32)
        elif name in embeddings:
            side = translator.source if name.startswith("source") else translator.target
            theirs = next(each for each in embeddings[name] if each in weights.shapes)
            found[name] = weights.read(theirs)[torch.tensor(side.rows)].to(torch.float32)
        else:
            assert name == "output_bias", name
            bias = torch.zeros(shape)
            if translator.has_output_bias and OUTPUT_BIAS in weights.shapes:
                rows = torch.tensor(translator.target.rows)
                bias = weights.read(OUTPUT_BIAS)[0, rows].to(torch.float32)
            bias[translator.hidden] = HIDDEN_BIAS
            found[name] = bias
        # A view would keep the whole file in memory.
        found[name] = found[name].clone() if found[name]._is_view() else found[name]
    return found


def _check_positions(translator: ForeignTranslator, weights: ForeignWeights) -> None:
    """Checks that waves in a file are those that the network computes.

    Raises:
        MtkitError: They are others, learned ones for example.
    """
    model = translator.config.model
    for name in _POSITION_TABLES:
        if name not in weights.shapes:
            continue
        table = weights.read(name).float()
        expected = sinusoids(table.shape[0], model.d_model, model.sinusoids)
        # The vector of padding, before the first one, is zero in some.
        start = model.first_position
        if table.shape != expected.shape or not torch.allclose(
            table[start:], expected[start:], atol=2e-3
        ):
            raise MtkitError(
                f"{weights.origin}: {name} isn't the sinusoids of that network",
                "mtkit imports translators whose positions are fixed",
            )
