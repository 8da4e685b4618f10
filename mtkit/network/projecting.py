"""What networks that emit tokens have in common: a projection to the vocabulary."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.network.cpu.compiled import compile_linear_maps
from mtkit.network.cpu.prepacked import prepack_linear_maps
from mtkit.network.cpu.quantized import Fill, keep_weights, quantize_linear_maps
from mtkit.network.embeddings import TokenEmbedding
from mtkit.recipe.model import Model
from mtkit.recipe.precision import Precision


class ProjectingNetwork(nn.Module):
    """A network whose states are multiplied with a matrix of token vectors.

    Attributes:
        output_embedding: The matrix, which may be that of the inputs.
        output_bias: A number for each token; None without one.
    """

    output_embedding: TokenEmbedding
    output_bias: nn.Parameter | None

    def build_projection(
        self, config: Model, vocab_size: int, tokens: TokenEmbedding, *, has_bias: bool
    ) -> None:
        """Builds the matrix and its bias.

        Args:
            config: The recipe's section.
            vocab_size: Number of pieces.
            tokens: The inputs' matrix, which is the output's too unless nothing is tied.
            has_bias: Whether there is a bias.
        """
        is_own = config.tied_embeddings == "none"
        self.output_embedding = TokenEmbedding(config, vocab_size) if is_own else tokens
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if has_bias else None

    def project(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocab"]:
        """Returns the logits of the next token."""
        return self.output_embedding.project(states, self.output_bias)

    def prepack(self) -> None:
        """Makes products on a CPU faster; from now on it can neither learn nor be saved."""
        prepack_linear_maps(self)
        self.output_embedding.prepack(self.output_bias)

    def compile_products(self, arithmetic: Precision) -> None:
        """Has all products be compiled; from now on it can neither learn nor be saved.

        Args:
            arithmetic: What is multiplied is rounded to; all else is in fp32.
        """
        compile_linear_maps(self, arithmetic)
        self.output_embedding.compile_products(self.output_bias, arithmetic)

    def quantize(self, fill: Fill = keep_weights) -> None:
        """Has all products multiply in 8 bits; from now on it can neither learn nor be saved.

        Args:
            fill: Sets the weights of a part before it is quantised, where they aren't set yet.
        """
        quantize_linear_maps(self, fill)
        self.output_embedding.quantize(self.output_bias)
