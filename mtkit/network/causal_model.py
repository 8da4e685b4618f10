"""A causal language model: the decoder alone (GPT, Radford et al. 2018)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.network.cache import DecoderCache
from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.network.initialization import initialize
from mtkit.network.layout import Layout
from mtkit.network.layouts import PaddedLayout
from mtkit.network.projecting import ProjectingNetwork
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model


class CausalDecoder(ProjectingNetwork):
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
        self.build_projection(config, vocab_size, tokens, has_bias=config.output_bias)
        self.decoder = TransformerStack(
            config, config.num_decoder_layers, cross_attention=False, is_causal=True
        )

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


class CausalLanguageModel(CausalDecoder):
    """A causal language model.

    Args:
        config: The recipe's section; of its layers the decoder's count.
        vocab_size: Number of pieces.
    """

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        initialize(self, std=config.initial_std)

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
