"""A network's weights in the library: an encoder-decoder, or a causal language model."""

import math
import threading
from collections.abc import Callable
from ctypes import byref, pointer

import numpy as np
from numpy.typing import NDArray

from mtkit.engine.library import (
    Embedding,
    Handle,
    Layer,
    Network,
    NormWeights,
    Positions,
    StackShape,
    address,
    choose_library,
)
from mtkit.engine.linear import Linear
from mtkit.recipe.model import Model, Sinusoids
from mtkit.recipe.precision import InferencePrecision

ReadWeight = Callable[[str], NDArray[np.float32]]
"""Returns a weight in fp32 by its name (`mtkit.model.parameters`)."""
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "swiglu")
"""In the order of cpp/layers.h."""
_MIN_POSITIONS = 256


def can_run(model: Model) -> bool:
    """Checks that the engine supports a network and is compiled."""
    return (
        choose_library() is not None
        and model.positions != "rotary"
        and model.attention_window is None
    )


class EngineNetwork:
    """A network in a precision; linear maps are copied, other weights are used in place.

    `has_source` is False for a causal language model.
    """

    def __init__(
        self, model: Model, read: ReadWeight, precision: InferencePrecision, *, has_source: bool
    ) -> None:
        library = choose_library()
        assert library is not None
        self._library, self._model, self._read, self._precision = library, model, read, precision
        self.has_source, self.num_layers = has_source, model.num_decoder_layers
        tokens_of = {"target": self._read_tokens("target")}
        self.vocab_size = len(tokens_of["target"])
        self._decoder = self._build_stack("decoder", "target", tokens_of["target"])
        self._encoder: Handle | None = None
        if has_source:
            is_shared = model.tied_embeddings == "three-way"
            tokens_of["source"] = tokens_of["target"] if is_shared else self._read_tokens("source")
            self._encoder = self._build_stack("encoder", "source", tokens_of["source"])
        is_tied = model.tied_embeddings != "none"
        matrix = tokens_of["target"] if is_tied else read("output_embedding.weight")
        self._projection = Linear(
            precision, matrix, read("output_bias") if model.output_bias else None
        )
        self._lock = threading.Lock()
        self._positions = {side: self._read_positions(side) for side in tokens_of}

    def describe(
        self,
        *,
        source_length: int,
        target_length: int,
        watched: tuple[int, int] | None = None,
        fusion_weight: float = 0.0,
    ) -> tuple[Network, object]:
        """Returns the network for a call, and what must live as long as the call.

        The lengths are the maximum numbers of positions. `watched` is a decoder layer and a head,
        from 0, whose attention is kept; head -1 is the mean of all, -2 their maximum.
        """
        sources = self._find_positions("source", source_length) if self.has_source else None
        targets = self._find_positions("target", target_length)
        layer, head = (-1, -1) if watched is None else watched
        described = Network(
            encoder=None if self._encoder is None else self._encoder.pointer,
            decoder=self._decoder.pointer,
            projection=self._projection.pointer,
            source_positions=Positions() if sources is None else _describe_positions(sources),
            target_positions=_describe_positions(targets),
            fusion_weight=fusion_weight,
            watched_layer=layer,
            watched_head=head,
        )
        return described, (self, sources, targets)

    def _read_tokens(self, side: str) -> NDArray[np.float32]:
        # A matrix that several parts share has the first one's name.
        is_shared = side == "target" and self._model.tied_embeddings == "three-way"
        first = "source" if is_shared and self.has_source else side
        return self._read(f"{first}_embedding.tokens.weight")

    def _read_positions(self, side: str) -> NDArray[np.float32]:
        if self._model.positions == "learned":
            return self._read(f"{side}_embedding.positions.weight")
        return self._make_sinusoids(_MIN_POSITIONS)

    def _make_sinusoids(self, count: int) -> NDArray[np.float32]:
        first = self._model.first_position
        return make_sinusoids(first + count, self._model.d_model, self._model.sinusoids)[first:]

    def _find_positions(self, side: str, length: int) -> NDArray[np.float32]:
        with self._lock:
            if self._model.positions == "sinusoidal" and length > len(self._positions[side]):
                self._positions[side] = self._make_sinusoids(2 * length)
            return self._positions[side]

    def _build_stack(self, name: str, side: str, tokens: NDArray[np.float32]) -> Handle:
        model = self._model
        num_layers = model.num_encoder_layers if name == "encoder" else model.num_decoder_layers
        has_cross_attention = name == "decoder" and self.has_source
        keeps: list[object] = [tokens]
        layers = [
            self._build_layer(f"{name}.layers.{number}", keeps, has_cross_attention)
            for number in range(num_layers)
        ]
        shape = StackShape(
            d_model=model.d_model,
            num_heads=model.num_heads,
            d_key=model.d_key,
            d_value=model.d_value,
            norm_first=model.norm == "pre",
            activation=_ACTIVATIONS.index(model.activation),
        )
        norm = self._read_norm(f"{side}_embedding.norm", keeps) if model.embedding_norm else None
        embedding = Embedding(
            tokens=address(tokens),
            num_tokens=len(tokens),
            scale=math.sqrt(model.d_model) if model.scale_embeddings else 1.0,
            norm=None if norm is None else pointer(norm),
        )
        final = self._read_norm(f"{name}.final_norm", keeps) if model.norm == "pre" else None
        return Handle(
            self._library.mtkit_new_stack(
                byref(shape),
                byref(embedding),
                (Layer * len(layers))(*layers),
                len(layers),
                None if final is None else byref(final),
            ),
            self._library.mtkit_free_stack,
            keeps,
            norm,
            final,
        )

    def _build_layer(self, name: str, keeps: list[object], has_cross_attention: bool) -> Layer:
        attention = f"{name}.self_attention" if has_cross_attention else f"{name}.attention"
        maps = {
            "query_key_value": f"{attention}.query_key_value",
            "self_output": f"{attention}.output",
            "inner": f"{name}.feed_forward.inner",
            "outer": f"{name}.feed_forward.output",
        }
        layer = Layer(
            self_norm=self._read_norm(f"{attention}_norm", keeps),
            feed_forward_norm=self._read_norm(f"{name}.feed_forward_norm", keeps),
        )
        if has_cross_attention:
            layer.cross_norm = self._read_norm(f"{name}.cross_attention_norm", keeps)
            maps |= {
                f"cross_{part}": f"{name}.cross_attention.{part}"
                for part in ("query", "key_value", "output")
            }
        for field, weight in maps.items():
            linear = Linear(
                self._precision, self._read(f"{weight}.weight"), self._read(f"{weight}.bias")
            )
            keeps.append(linear)
            setattr(layer, field, linear.pointer)
        return layer

    def _read_norm(self, name: str, keeps: list[object]) -> NormWeights:
        weight, bias = self._read(f"{name}.weight"), self._read(f"{name}.bias")
        keeps += [weight, bias]
        return NormWeights(
            weight=address(weight), bias=address(bias), epsilon=self._model.norm_epsilon
        )


def _describe_positions(vectors: NDArray[np.float32]) -> Positions:
    return Positions(vectors=address(vectors), count=len(vectors))


def make_sinusoids(num_positions: int, d_model: int, kind: Sinusoids) -> NDArray[np.float32]:
    """Returns sines and cosines of p / 10000^(2i/d_model), [num_positions, d_model].

    p counts positions, from 0; i counts pairs of a sine and a cosine. `interleaved` has sines at
    even indices and cosines at odd ones, as in arXiv 1706.03762, section 3.5. `halves` has all
    sines first, as in Marian. `tensor2tensor` does too, with p / 10000^(i/(d_model/2 - 1)), as in
    fairseq and M2M100.
    """
    pairs = np.arange(d_model // 2, dtype=np.float64)
    slowest = max(d_model // 2 - 1, 1) if kind == "tensor2tensor" else d_model / 2
    frequencies = np.exp(-math.log(10_000.0) * pairs / slowest)
    angles = np.arange(num_positions, dtype=np.float64)[:, None] * frequencies
    waves = np.sin(angles), np.cos(angles)
    joined = np.stack(waves, axis=-1) if kind == "interleaved" else np.stack(waves, axis=1)
    return np.ascontiguousarray(joined.reshape(num_positions, d_model), np.float32)
