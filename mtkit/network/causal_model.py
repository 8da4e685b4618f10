"""A causal language model: the decoder alone (GPT, Radford et al. 2018)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.cache import DecoderCache
from mtkit.network.cpu.prepacked import prepack_linear_maps
from mtkit.network.cpu.quantized import Fill, keep_weights, quantize_linear_maps
from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.network.initialization import initialize
from mtkit.network.layouts import Layout, PaddedLayout
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model


class CausalLanguageModel(nn.Module):
    """A decoder without a source; its parts have the names that a translator's decoder has.

    Args:
        config: The recipe's section; of its layers the decoder's count.
        vocab_size: Number of pieces.
    """

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__()
        self.model = config
        tokens = TokenEmbedding(config, vocab_size)
        self.target_embedding = InputEmbedding(config, tokens)
        self.output_embedding = (
            TokenEmbedding(config, vocab_size) if config.tied_embeddings == "none" else tokens
        )
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if config.output_bias else None
        self.decoder = TransformerStack(
            config, config.num_decoder_layers, cross_attention=False, is_causal=True
        )
        initialize(self, std=config.initial_std)

    def forward(
        self, tokens: Int[Tensor, "batch length"], layout: Layout
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns, for each position, the vector that predicts the next token.

        Args:
            tokens: Of each text, `<s>` and its pieces.
            layout: Their layout.
        """
        states: Tensor = self.decoder(self.target_embedding(tokens, layout), layout)
        return states

    def project(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocab"]:
        """Returns the logits of the next token."""
        return self.output_embedding.project(states, self.output_bias)

    def prepack(self) -> None:
        """Makes products on a processor faster; from now on it can neither learn nor be saved."""
        prepack_linear_maps(self)
        self.output_embedding.prepack(self.output_bias)

    def quantize(self, fill: Fill = keep_weights) -> None:
        """Has all products multiply in 8 bits; from now on it can neither learn nor be saved.

        Args:
            fill: Sets the weights of a part before it is quantised, where they aren't set yet.
        """
        quantize_linear_maps(self, fill)
        self.output_embedding.quantize(self.output_bias)

    def start(self, num_sentences: int, device: torch.device) -> DecoderCache:
        """Returns an empty cache for so many texts, ready for the first `step`."""
        return self.decoder.start_alone(num_sentences, device)

    def read(self, tokens: Int[Tensor, "batch length"], layout: PaddedLayout) -> DecoderCache:
        """Returns a cache that holds texts, for `step` to continue them.

        Args:
            tokens: Of each text, `<s>` and its pieces but the last, which the first step takes;
                padded at the end.
            layout: Their layout.
        """
        return self.decoder.read(self.target_embedding(tokens, layout), layout)

    def step(
        self, tokens: Int[Tensor, "batch beam"], cache: DecoderCache
    ) -> Float[Tensor, "batch beam vocab"]:
        """Returns the logits of the token after `tokens`, and adds `tokens` to the cache.

        Args:
            tokens: Each hypothesis's newest token; first `<s>`, or the last that wasn't read.
            cache: The cache that `start` or `read` returned.
        """
        embedded = self.target_embedding.step(tokens, cache.find_position())
        return self.project(self.decoder.step(embedded, cache))
