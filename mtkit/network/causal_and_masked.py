"""Language models and classifiers with one stack: a decoder (GPT) or an encoder (BERT)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.cache import DecoderCache
from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.network.layout import Layout, NewestLogits, NewestTokens, States, Tokens
from mtkit.network.layouts import PaddedLayout
from mtkit.network.projecting import ProjectingNetwork, initialize
from mtkit.network.stack import TransformerStack
from mtkit.network.sublayers import Dropout, LayerNorm, activate
from mtkit.recipe.model import Model


class CausalDecoder(ProjectingNetwork):
    """A decoder without a source; its parts are named as in a translator's decoder."""

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__()
        self.model = config
        tokens = TokenEmbedding(config, vocab_size)
        self.target_embedding = InputEmbedding(config, tokens)
        self.build_projection(config, vocab_size, tokens, has_bias=config.output_bias)
        self.decoder = TransformerStack(
            config, config.num_decoder_layers, cross_attention=False, is_causal=True
        )

    def forward(self, tokens: Tokens, layout: Layout) -> States:
        """Returns the vectors that predict each position's next token; texts begin with `<s>`."""
        states: Tensor = self.decoder(self.target_embedding(tokens, layout), layout)
        return states


class CausalLanguageModel(CausalDecoder):
    """A causal language model."""

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        initialize(self, std=config.initial_std)

    def start(self, num_sentences: int, device: torch.device) -> DecoderCache:
        """Returns an empty cache for `num_sentences` texts, ready for the first `step`."""
        return self.decoder.start_alone(num_sentences, device)

    def read(self, tokens: Tokens, layout: PaddedLayout) -> DecoderCache:
        """Returns a cache of padded texts, without their last tokens, for `step` to continue."""
        return self.decoder.read(self.target_embedding(tokens, layout), layout)

    def step(self, tokens: NewestTokens, cache: DecoderCache) -> NewestLogits:
        """Returns the next token's logits, and caches `tokens`, first `<s>` or the last unread."""
        position, end = cache.find_position(), cache.num_steps + 1
        embedded = self.target_embedding.step(tokens, position, end)
        return self.project(self.decoder.step(embedded, cache))


class MaskedHead(nn.Module):
    """A linear map, activation and norm between the encoder and the token matrix."""

    # As in BERT's code, the activation is that of the feed-forward sub-layers.

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = LayerNorm(config)

    def forward(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        """Returns the vectors whose products with the token matrix are logits."""
        normed: Tensor = self.norm(activate(self.dense(states), self.activation))
        return normed


class MaskedEncoder(ProjectingNetwork):
    """An encoder of one or two segments; its parts are named as in a translator's encoder."""

    def __init__(self, config: Model, vocab_size: int, *, projects: bool) -> None:
        super().__init__()
        self.model = config
        tokens = TokenEmbedding(config, vocab_size)
        self.source_embedding = InputEmbedding(config, tokens, has_segments=True)
        if projects:
            self.build_projection(config, vocab_size, tokens, has_bias=True)
        self.encoder = TransformerStack(
            config, config.num_encoder_layers, cross_attention=False, is_causal=False
        )

    def forward(self, tokens: Tokens, segments: Tokens, layout: Layout) -> States:
        """Returns the encoded tokens; vectors at padding are meaningless.

        Inputs are `<s>`, the first segment, `</s>` (segment 0), and optionally the second, `</s>`
        (1).
        """
        states: Tensor = self.encoder(self.source_embedding(tokens, layout, segments), layout)
        return states


class MaskedLanguageModel(MaskedEncoder):
    """An encoder that predicts masked tokens and, optionally, next sentences."""

    def __init__(self, config: Model, vocab_size: int, *, next_sentence: bool) -> None:
        super().__init__(config, vocab_size, projects=True)
        self.masked_head = MaskedHead(config)
        self.pooler = nn.Linear(config.d_model, config.d_model) if next_sentence else None
        self.next_sentence = nn.Linear(config.d_model, 2) if next_sentence else None
        initialize(self, std=config.initial_std)

    def predict(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocab"]:
        """Returns the logits of the masked tokens, from the encoded tokens."""
        return self.project(self.masked_head(states))

    def classify_pair(self, states: States, layout: Layout) -> Float[Tensor, "sentences 2"]:
        """Returns the logits of "follows" (0) and "doesn't follow" (1), from the encoded tokens."""
        # They come from each text's first token, `<s>`, through a linear map and tanh.
        assert self.pooler is not None, "a network without next-sentence prediction"
        assert self.next_sentence is not None
        pooled = torch.tanh(self.pooler(layout.select_first(states)))
        logits: Tensor = self.next_sentence(pooled)
        return logits


class MaskedClassifier(MaskedEncoder):
    """A masked encoder that labels a text by its `<s>` (BERT, arXiv 1810.04805, section 4.1)."""

    def __init__(self, config: Model, vocab_size: int, num_labels: int) -> None:
        super().__init__(config, vocab_size, projects=False)
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, num_labels)
        initialize(self, std=config.initial_std)

    def label(
        self, tokens: Tokens, segments: Tokens, layout: Layout, last: Int[Tensor, " texts"]
    ) -> tuple[States, Float[Tensor, "texts labels"]]:
        """Returns the encoded tokens and the logits of the labels; `last` isn't used."""
        del last
        states = self(tokens, segments, layout)
        pooled = torch.tanh(self.pooler(layout.select_first(states)))
        return states, self.classifier(self.dropout(pooled))


class CausalClassifier(CausalDecoder):
    """A causal model that labels a text by its last token (Radford et al. 2018, section 3.3)."""

    # It still predicts tokens, for the auxiliary loss.

    def __init__(self, config: Model, vocab_size: int, num_labels: int) -> None:
        super().__init__(config, vocab_size)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, num_labels)
        initialize(self, std=config.initial_std)

    def label(
        self, tokens: Tokens, segments: Tokens, layout: Layout, last: Int[Tensor, " texts"]
    ) -> tuple[States, Float[Tensor, "texts labels"]]:
        """Returns the decoded tokens and the logits of the labels; `segments` isn't used.

        `last` has each text's last index among real tokens.
        """
        del segments
        states = self(tokens, layout)
        return states, self.classifier(self.dropout(layout.select_tokens(states)[last]))
