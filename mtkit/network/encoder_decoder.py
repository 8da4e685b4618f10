"""The Transformer of "Attention Is All You Need" (arXiv 1706.03762)."""

from jaxtyping import Float
from torch import Tensor

from mtkit.network.attention import WatchedHead
from mtkit.network.cache import DecoderCache
from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.network.layout import (
    Layout,
    NewestLogits,
    NewestTokens,
    SourceStates,
    SourceTokens,
    TargetStates,
    TargetTokens,
)
from mtkit.network.layouts import PaddedLayout, UnpaddedLayout
from mtkit.network.projecting import ProjectingNetwork, initialize
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model

_MIN_PADDING = 0.1
"""Minimum share of padding for leaving it out; with less there is little to gain."""


class EncoderDecoder(ProjectingNetwork):
    """An encoder, a decoder and an output projection, optionally with shared embeddings."""

    def __init__(self, config: Model, source_vocab_size: int, target_vocab_size: int) -> None:
        super().__init__()
        self.model = config
        target_tokens = TokenEmbedding(config, target_vocab_size)
        if config.tied_embeddings == "three-way":
            assert source_vocab_size == target_vocab_size, (source_vocab_size, target_vocab_size)
            source_tokens = target_tokens
        else:
            source_tokens = TokenEmbedding(config, source_vocab_size)
        self.source_embedding = InputEmbedding(config, source_tokens)
        self.target_embedding = InputEmbedding(config, target_tokens)
        self.build_projection(config, target_vocab_size, target_tokens, has_bias=config.output_bias)
        self.encoder = TransformerStack(
            config, config.num_encoder_layers, cross_attention=False, is_causal=False
        )
        self.decoder = TransformerStack(
            config, config.num_decoder_layers, cross_attention=True, is_causal=True
        )
        initialize(self, std=config.initial_std)

    def encode(self, source_tokens: SourceTokens, source_layout: Layout) -> SourceStates:
        """Returns the encoded source; vectors at padding are meaningless."""
        embedded = self.source_embedding(source_tokens, source_layout)
        encoded: Tensor = self.encoder(embedded, source_layout)
        return encoded

    def forward(
        self,
        source_tokens: SourceTokens,
        source_layout: Layout,
        target_tokens: TargetTokens,
        target_layout: Layout,
        watched: WatchedHead | None = None,
    ) -> TargetStates:
        """Returns the vectors that predict each position's next token.

        Sources are closed by `</s>`, targets begin with `<s>`. Both layouts are of the same kind.
        `watched` keeps a decoder head's queries and keys.
        """
        memory = self.encode(source_tokens, source_layout)
        embedded = self.target_embedding(target_tokens, target_layout)
        states: Tensor = self.decoder(embedded, target_layout, memory, source_layout, watched)
        return states

    def watch(
        self,
        memory: SourceStates,
        source_layout: PaddedLayout,
        target_tokens: TargetTokens,
        target_layout: PaddedLayout,
        watched: WatchedHead,
    ) -> Float[Tensor, "batch tgt_len src_len"]:
        """Returns a head's attention to the encoded source with minimal computation."""
        embedded = self.target_embedding(target_tokens, target_layout)
        self.decoder.watch(embedded, target_layout, memory, source_layout, watched)
        return watched.find_weights(target_layout, source_layout)

    def start(self, source_tokens: SourceTokens, source_layout: PaddedLayout) -> DecoderCache:
        """Returns a cache with the encoded source, ready for the first `step`."""
        return self.decoder.start(*self.encode_without_padding(source_tokens, source_layout))

    def encode_without_padding(
        self, source_tokens: SourceTokens, source_layout: PaddedLayout
    ) -> tuple[Tensor, PaddedLayout | UnpaddedLayout]:
        """Returns encoded sources and their layout, without padding if that is faster.

        The states are [batch, src_len, d_model], or [1, tokens, d_model].
        """
        layout: PaddedLayout | UnpaddedLayout = source_layout
        if source_tokens.device.type == "cpu" and _has_much_padding(source_layout):
            layout = UnpaddedLayout.of(source_layout)
            source_tokens = source_tokens[source_layout.is_token][None]
        return self.encode(source_tokens, layout), layout

    def step(self, tokens: NewestTokens, cache: DecoderCache) -> NewestLogits:
        """Returns the logits of the token after `tokens`, `<s>` first, and caches `tokens`."""
        embedded = self.target_embedding.step(tokens, cache.num_steps)
        return self.project(self.decoder.step(embedded, cache))


def _has_much_padding(layout: PaddedLayout) -> bool:
    """Checks whether leaving out the sources' padding is faster (docs/log.md)."""
    return float(layout.is_token.sum()) < (1.0 - _MIN_PADDING) * layout.is_token.numel()
