"""The common part of networks: a projection to the vocabulary, and initial weights."""

import copy
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cpu.quantized import Fill, keep_weights, quantize_linear_maps
from mtkit.network.embeddings import LearnedPositions, SegmentEmbedding, TokenEmbedding
from mtkit.network.sublayers import FusedLinear
from mtkit.recipe.model import Model
from mtkit.recipe.precision import InferencePrecision


class ProjectingNetwork(nn.Module):
    """A network whose states are multiplied with a matrix of token vectors, maybe the inputs'."""

    output_embedding: TokenEmbedding
    output_bias: nn.Parameter | None

    def build_projection(
        self, config: Model, vocab_size: int, tokens: TokenEmbedding, *, has_bias: bool
    ) -> None:
        """Builds the bias and the matrix, which is the inputs' `tokens` unless nothing is tied."""
        is_own = config.tied_embeddings == "none"
        self.output_embedding = TokenEmbedding(config, vocab_size) if is_own else tokens
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if has_bias else None

    def project(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocab"]:
        """Returns the logits of the next token."""
        return self.output_embedding.project(states, self.output_bias)

    def quantize(self, fill: Fill = keep_weights) -> None:
        """Quantises all products to 8 bits; afterwards it can neither learn nor be saved.

        `fill` sets the weights of a part before it is quantised.
        """
        quantize_linear_maps(self, fill)
        self.output_embedding.quantize(self.output_bias)


def initialize(module: nn.Module, *, std: float | None = None) -> None:
    """Sets every parameter below `module`, in a fixed order, from torch's generator."""
    # The paper (arXiv 1706.03762) doesn't specify this. As in its authors' code, matrices are
    # Glorot-uniform, and embeddings normal with variance 1/d_model, so that sqrt(d_model) times one
    # has variance 1; biases are 0, norms 1. Fused maps (queries, keys and values; a gate and its
    # input) are drawn separately: Glorot's bound depends on a map's own width. The output bias is
    # already 0. With `std` all matrices and embeddings are normal, as in GPT (Radford et al. 2018,
    # section 4.1) and BERT.
    with torch.no_grad():
        for part in module.modules():
            match part:
                case nn.Linear():
                    if std is None:
                        nn.init.xavier_uniform_(part.weight)
                    else:
                        nn.init.normal_(part.weight, std=std)
                    nn.init.zeros_(part.bias)
                case nn.LayerNorm():
                    nn.init.ones_(part.weight)
                    nn.init.zeros_(part.bias)
                case TokenEmbedding() | LearnedPositions() | SegmentEmbedding():
                    nn.init.normal_(part.weight, std=std or part.weight.shape[1] ** -0.5)
        if std is not None:
            return
        # After all others: the order of draws is part of a seed's meaning.
        for part in module.modules():
            if isinstance(part, FusedLinear):
                for weight in torch.split(part.weight, list(part.widths)):
                    nn.init.xavier_uniform_(weight)


_Network = TypeVar("_Network", bound=nn.Module)


def copy_in(model: _Network, dtype: torch.dtype) -> _Network:
    """Returns a copy of a network with weights in a dtype; buffers are unchanged."""
    copied = copy.deepcopy(model)
    for weight in copied.parameters():
        weight.data = weight.data.to(dtype)
    return copied


def in_precision(model: _Network, precision: InferencePrecision) -> _Network:
    """Returns a network for inference in a precision; the given network may be changed.

    In int8 the output projection, which isn't a separate linear map, is unchanged.
    """
    match precision:
        case "fp32":
            return model
        case "bf16":
            return copy_in(model, torch.bfloat16)
        case "int8":
            quantize_linear_maps(model)
            return model
