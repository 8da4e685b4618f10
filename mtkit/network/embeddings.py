"""Embeddings of tokens and positions (arXiv 1706.03762, sections 3.4 and 3.5)."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.engine.network import make_sinusoids
from mtkit.network.cpu.quantized import QuantizedLinear
from mtkit.network.layout import Layout, NewestStates, NewestTokens, States, Tokens
from mtkit.network.sublayers import Dropout, LayerNorm
from mtkit.recipe.model import Model, Sinusoids

_INITIAL_POSITIONS = 256


def sinusoids(
    num_positions: int, d_model: int, kind: Sinusoids = "interleaved"
) -> Float[Tensor, "num_positions d_model"]:
    """Returns the sines and cosines of `make_sinusoids`."""
    # Not `from_numpy`, which ignores the default device.
    return torch.tensor(make_sinusoids(num_positions, d_model, kind))


class SinusoidalPositions(nn.Module):
    """Sinusoids; the table grows with the longest text, so lengths have no limit."""

    table: Tensor

    def __init__(
        self, d_model: int, *, kind: Sinusoids = "interleaved", first_position: int = 0
    ) -> None:
        super().__init__()
        self.d_model, self.kind = d_model, kind
        self.first_position = first_position
        self.register_buffer(
            "table", sinusoids(_INITIAL_POSITIONS, d_model, kind), persistent=False
        )

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the vectors of `length` positions from position `first` of a sentence."""
        first += self.first_position
        end = first + length
        if end > self.table.shape[0]:
            grown = sinusoids(max(end, 2 * self.table.shape[0]), self.d_model, self.kind)
            self.table = grown.to(self.table)
        return self.table[first:end]


class LearnedPositions(nn.Module):
    """A trained vector per position."""

    def __init__(self, num_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_positions, d_model))

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the vectors of `length` positions from `first`; past the last, a ValueError."""
        if first + length > self.weight.shape[0]:
            raise ValueError(
                f"position {first + length - 1} requested, but the model learned only "
                f"{self.weight.shape[0]} (model.max_positions)"
            )
        return self.weight[first : first + length]


class TokenEmbedding(nn.Module):
    """A matrix of token vectors: times sqrt(d_model) as input, unscaled as output projection."""

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.projection: QuantizedLinear | None = None

    def forward(self, tokens: Tokens) -> States:
        """Returns the scaled vector of each token, in at least fp32."""
        return _look_up(self.weight, tokens) * self.scale

    def project(
        self,
        states: Float[Tensor, "*shape d_model"],
        bias: Float[Tensor, " vocab"] | None = None,
    ) -> Float[Tensor, "*shape vocab"]:
        """Returns each state's product with every token's vector, plus a bias per token."""
        if self.projection is not None:
            logits: Tensor = self.projection(states)
            return logits
        return nn.functional.linear(states, self.weight, bias)

    def quantize(self, bias: Float[Tensor, " vocab"] | None) -> None:
        """Makes `project` multiply in 8 bits, with this fixed bias and for inference only."""
        self.projection = QuantizedLinear(self.weight, bias)


class SegmentEmbedding(nn.Module):
    """A trained vector for each of an input's two segments (arXiv 1810.04805)."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, config.d_model))

    def forward(self, segments: Tokens) -> States:
        """Returns the vector of each token's segment, 0 or 1, in at least fp32."""
        return _look_up(self.weight, segments)


class InputEmbedding(nn.Module):
    """Token vectors plus positions (and segments), with dropout on the sum (section 5.4)."""

    # Rotary positions aren't added here: attention rotates queries and keys.

    def __init__(
        self, config: Model, tokens: TokenEmbedding, *, has_segments: bool = False
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = _build_positions(config)
        self.segments = SegmentEmbedding(config) if has_segments else None
        self.norm = LayerNorm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tokens, layout: Layout, segments: Tokens | None = None) -> States:
        """Returns the vectors of tokens with this layout; `segments` are 0 or 1."""
        assert tokens.shape == layout.shape, "a layout of other tokens"
        added = None
        if self.positions is not None:
            added = _look_up(self.positions(0, layout.max_length), layout.positions)
        if self.segments is None:
            assert segments is None, "this network has no vectors of segments"
        else:
            assert segments is not None, "this network adds vectors of segments"
            parts = self.segments(segments)
            added = parts if added is None else added + parts
        return self._embed(tokens, added)

    def step(
        self, tokens: NewestTokens, position: int | Int[Tensor, " batch"], end: int | None = None
    ) -> NewestStates:
        """Returns the newest tokens' vectors.

        `position` counts from 0. If there is one per text, ended texts may have some from `end` on.
        """
        if self.positions is None:
            return self._embed(tokens, None)
        if isinstance(position, int):
            return self._embed(tokens, self.positions(position, 1))
        assert end is not None, "reading the largest position would wait for a GPU"
        # The model may have learned fewer positions: a text that is gone or has ended is past them.
        if isinstance(self.positions, LearnedPositions):
            end = min(end, len(self.positions.weight))
        table = self.positions(0, end)
        return self._embed(tokens, _look_up(table, position.clamp(max=end - 1)[:, None]))

    def _embed(self, tokens: Tensor, added: Tensor | None) -> Tensor:
        # Both are in fp32; the result is in the precision of the weights.
        vectors = self.tokens(tokens) if added is None else self.tokens(tokens) + added
        dropped: Tensor = self.dropout(self.norm(vectors.to(self.tokens.weight.dtype)))
        return dropped


def _build_positions(config: Model) -> SinusoidalPositions | LearnedPositions | None:
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(
                config.d_model, kind=config.sinusoids, first_position=config.first_position
            )
        case "learned":
            return LearnedPositions(config.max_positions, config.d_model)
        case "rotary":
            return None


def _look_up(
    table: Float[Tensor, "rows width"], indices: Int[Tensor, "*shape"]
) -> Float[Tensor, "*shape width"]:
    """Returns a table's rows at these indices, in at least fp32."""
    if table.dtype.itemsize == 2:
        rows: Tensor = _LookUp.apply(table, indices)  # type: ignore[no-untyped-call]
        return rows
    return nn.functional.embedding(indices, table)


class _LookUp(torch.autograd.Function):
    """Rows of a 16-bit table, in fp32."""

    # The gradient of a row is the sum over all its uses: thousands, for a full stop or the first
    # position. PyTorch's kernels for a 16-bit table round that sum after every use, or after every
    # few (on CUDA), until further terms no longer change it. Here it is summed in fp32 and rounded
    # once.

    @staticmethod
    def forward(ctx: Any, table: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.num_rows, ctx.dtype = len(table), table.dtype
        return nn.functional.embedding(indices, table).float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        summed = torch.ops.aten.embedding_dense_backward(gradient, indices, ctx.num_rows, -1, False)
        return summed.to(ctx.dtype), None
