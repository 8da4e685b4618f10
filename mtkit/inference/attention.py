"""Attention weights of every layer and head, for a line and its translation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.engines.torch_engine import TorchEngine, pad
from mtkit.inference.parse import TreeMaker
from mtkit.inference.translator import Translator
from mtkit.model.folder import load_model_folder
from mtkit.network import EncoderDecoder
from mtkit.network.device import find_device, limit_threads
from mtkit.network.layouts import RecordingLayout
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS
from mtkit.text.trees.brackets import split_tree_words

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
"""Source to source; translation to translation; translation to source."""
Weights = Float[NDArray[np.float32], "layers heads queries memory"]


@dataclass(frozen=True)
class LineAttention:
    """A line, its translation and all attention weights.

    Attributes:
        source_pieces: The line's tokens, `</s>` last.
        target_pieces: The decoder's input tokens, `<s>` first.
        weights: By kind, [layers, heads, queries, memory]; each query's weights sum to 1. The
            decoder's queries, and the memory of its self-attention, are `target_pieces`.
    """

    source: str
    target: str
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    weights: dict[Kind, Weights]

    def pieces_of(self, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the query tokens and the memory tokens."""
        queries = self.source_pieces if kind == "encoder" else self.target_pieces
        return queries, self.target_pieces if kind == "decoder" else self.source_pieces


class AttentionReader:
    """Reads a translator's attention in fp32, with the folder's search settings by default."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Inference | None = None,
        device: str = "auto",
        source_language: str = "",
        target_language: str = "",
    ) -> None:
        limit_threads()
        self._device = find_device(device)
        loaded = load_model_folder(folder, device=self._device)
        if not isinstance(loaded.model, EncoderDecoder) or (
            loaded.config.objective != "translation"
        ):
            raise MtkitError(
                f"{folder} isn't an encoder-decoder translator or parser: only their attention "
                "can be shown",
                "name another model folder",
            )
        self._network = loaded.model.eval()
        self._tokenizer = loaded.tokenizer
        self._trees = TreeMaker.of(loaded.config.linearization, loaded.tokenizer)
        settings = loaded.settings if settings is None else settings
        plain = {"engine": "torch", "n_best": 1, "processes": 1, "flags": None}
        self._translator = Translator.of(
            TorchEngine(self._network, self._device),
            loaded.tokenizer,
            settings.model_copy(update=plain),
            source_language=source_language or loaded.config.source_language,
            target_language=target_language or loaded.config.target_language,
            linearization=loaded.config.linearization,
        )

        found = self._translator.resolve_languages()
        self._marks = loaded.tokenizer.mark_languages(*found)

    def read(self, pairs: Sequence[tuple[str, str | None]]) -> Iterator[LineAttention]:
        """Yields the attention of each line.

        A line whose translation is None is translated first. A parser's translations are trees.

        Raises:
            MtkitError: A line is blank, can't be translated, or is too long.
        """
        for number, (source, target) in enumerate(pairs, start=1):
            if not source.strip():
                raise MtkitError(f"line {number} is blank", "give lines with text")
            written = self._translator.translate(source) if target is None else target
            yield self._read_line(number, source, written)

    @torch.no_grad()
    def _read_line(self, number: int, source: str, target: str) -> LineAttention:
        read, symbols = source, target
        if self._trees is not None:
            read, symbols = " ".join(split_tree_words(source)), self._trees.write_symbols(target)
        marks = self._marks
        source_tokens = self._tokenizer.encode_source([read])[0]
        source_ids = [*marks.before, *source_tokens, *marks.behind]
        target_ids = [BOS, *marks.begin, *self._tokenizer.encode_target([symbols])[0][:-1]]
        num_tokens, limit = max(len(source_ids), len(target_ids)), self._network.model.max_tokens
        if limit is not None and num_tokens > limit:
            raise MtkitError(
                f"line {number}: {num_tokens:,} tokens, but the model has {limit:,} positions",
                "give a shorter line",
            )
        source_layout, target_layout = (
            RecordingLayout(layout.to(self._device).is_token)
            for _, layout in map(pad, ([source_ids], [target_ids]))
        )
        self._network(
            torch.tensor([source_ids], device=self._device),
            source_layout,
            torch.tensor([target_ids], device=self._device),
            target_layout,
        )
        of_decoder = target_layout.weights
        recorded = {
            "encoder": source_layout.weights,
            "decoder": of_decoder[0::2],
            "cross": of_decoder[1::2],
        }
        source_pieces = self._tokenizer.source_vocabulary.pieces
        target_pieces = self._tokenizer.target_vocabulary.pieces
        return LineAttention(
            source,
            target,
            tuple(source_pieces[token] for token in source_ids),
            tuple(target_pieces[token] for token in target_ids),
            {kind: torch.cat(recorded[kind]).cpu().numpy() for kind in KINDS},
        )


@dataclass(frozen=True)
class HeadFigures:
    """A head's behaviour, averaged over queries.

    Attributes:
        layer: From 1.
        head: Its number in the layer, from 1.
        distance: Mean attention distance in tokens: sum of weight times |i - j|; None for
            cross-attention, whose positions don't correspond.
        offset: Mean of j - i in tokens: -1 attends to the previous token; None as above.
        entropy: Mean entropy of a query's weights in bits: 0 attends to a single token.
        confidence: Mean of each query's maximum weight, without `<s>` and `</s>` in the memory
            (Voita et al. 2019, arXiv 1905.09418, section 4).
        to_ends: Mean weight of `<s>` and `</s>`.
    """

    kind: Kind
    layer: int
    head: int
    distance: float | None
    offset: float | None
    entropy: float
    confidence: float
    to_ends: float


def describe_heads(lines: Sequence[LineAttention]) -> list[HeadFigures]:
    """Returns the figures of every head, averaged over all queries of at least one line."""
    if not lines:
        raise ValueError("no lines")
    return [figures for kind in KINDS for figures in _describe_kind(lines, kind)]


def _describe_kind(lines: Sequence[LineAttention], kind: Kind) -> Iterator[HeadFigures]:
    sums = sum(_add_up(line, kind) for line in lines)
    num_queries = sum(line.weights[kind].shape[2] for line in lines)
    means = np.asarray(sums) / num_queries
    for layer, of_layer in enumerate(means, start=1):
        for head, figures in enumerate(of_layer.tolist(), start=1):
            distance, offset, entropy, confidence, to_ends = figures
            is_cross = kind == "cross"
            yield HeadFigures(
                kind,
                layer,
                head,
                None if is_cross else distance,
                None if is_cross else offset,
                entropy,
                confidence,
                to_ends,
            )


def _add_up(line: LineAttention, kind: Kind) -> NDArray[np.float64]:
    """Returns a line's sums over queries, [layers, heads, 5]."""
    weights = line.weights[kind].astype(np.float64)
    _, memory = line.pieces_of(kind)
    is_end = np.array([piece in ("<s>", "</s>") for piece in memory])
    ahead = np.arange(weights.shape[3])[None] - np.arange(weights.shape[2])[:, None]
    logarithms = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    inner = weights[..., ~is_end]
    max_weights = inner.max(axis=-1) if inner.shape[-1] else np.zeros(weights.shape[:3])
    per_query = (
        (weights * np.abs(ahead)).sum(axis=-1),
        (weights * ahead).sum(axis=-1),
        -(weights * logarithms).sum(axis=-1),
        max_weights,
        weights[..., is_end].sum(axis=-1),
    )
    return np.stack([each.sum(axis=-1) for each in per_query], axis=-1)
