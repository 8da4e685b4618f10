"""Language models and classifiers of one stack: a decoder (GPT) or an encoder (BERT)."""

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

    def forward(self, tokens: Tokens, layout: Layout) -> States:
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

    def read(self, tokens: Tokens, layout: PaddedLayout) -> DecoderCache:
        """Returns a cache that holds texts, for `step` to continue them.

        Args:
            tokens: Of each text, `<s>` and its pieces but the last, which the first step takes;
                padded at the end.
            layout: Their layout.
        """
        return self.decoder.read(self.target_embedding(tokens, layout), layout)

    def step(self, tokens: NewestTokens, cache: DecoderCache) -> NewestLogits:
        """Returns the logits of the token after `tokens`, and adds `tokens` to the cache.

        Args:
            tokens: Each hypothesis's newest token; first `<s>`, or the last that wasn't read.
            cache: The cache that `start` or `read` returned.
        """
        embedded = self.target_embedding.step(tokens, cache.find_position())
        return self.project(self.decoder.step(embedded, cache))


class MaskedHead(nn.Module):
    """What stands between the encoder and the token matrix: a linear map, activation and norm.

    As in BERT's code, the activation is that of the feed-forward sub-layers.
    """

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
    """An encoder of one text or two; its parts have the names that a translator's encoder has.

    Args:
        config: The recipe's section; of its layers the encoder's count.
        vocab_size: Number of pieces.
        projects: Whether it has a projection to the vocabulary, with a bias.
    """

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
        """Returns the encoded tokens; vectors of padding hold no meaning.

        Args:
            tokens: `<s>`, the first part, `</s>`; and, if there is one, the second part, `</s>`.
            segments: 0 at the tokens of the first part, its `<s>` and `</s>` included, 1 at those
                of the second.
            layout: Their layout.
        """
        states: Tensor = self.encoder(self.source_embedding(tokens, layout, segments), layout)
        return states


class MaskedLanguageModel(MaskedEncoder):
    """An encoder that tells hidden tokens, and whether a text's second part follows its first.

    Args:
        config: The recipe's section; of its layers the encoder's count.
        vocab_size: Number of pieces.
        next_sentence: Whether it tells whether the second part follows the first.
    """

    def __init__(self, config: Model, vocab_size: int, *, next_sentence: bool) -> None:
        super().__init__(config, vocab_size, projects=True)
        self.masked_head = MaskedHead(config)
        self.pooler = nn.Linear(config.d_model, config.d_model) if next_sentence else None
        self.next_sentence = nn.Linear(config.d_model, 2) if next_sentence else None
        initialize(self, std=config.initial_std)

    def predict(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape vocab"]:
        """Returns the logits of the tokens that were hidden, from the encoded tokens.

        `masked_head` alone returns what a loss multiplies with the token matrix.
        """
        return self.project(self.masked_head(states))

    def classify_pair(self, states: States, layout: Layout) -> Float[Tensor, "sentences 2"]:
        """Returns the logits of "follows" (0) and "doesn't follow" (1), from the encoded tokens.

        They come from each text's first token, `<s>`, through a linear map and tanh.
        """
        assert self.pooler is not None, "a network without next-sentence prediction"
        assert self.next_sentence is not None
        pooled = torch.tanh(self.pooler(layout.select_first(states)))
        logits: Tensor = self.next_sentence(pooled)
        return logits


class MaskedClassifier(MaskedEncoder):
    """A masked language model's encoder that labels a text by its first token's state.

    BERT (arXiv 1810.04805, section 4.1): a linear map and tanh, dropout, and a linear map to the
    labels. Its parts have the names that they have in the language model.

    Args:
        config: The recipe's section; of its layers the encoder's count.
        vocab_size: Number of pieces.
        num_labels: Number of labels.
    """

    def __init__(self, config: Model, vocab_size: int, num_labels: int) -> None:
        super().__init__(config, vocab_size, projects=False)
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, num_labels)
        initialize(self, std=config.initial_std)

    def classify(self, states: States, layout: Layout) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels, from the encoded tokens."""
        pooled = torch.tanh(self.pooler(layout.select_first(states)))
        logits: Tensor = self.classifier(self.dropout(pooled))
        return logits

    def label(
        self, tokens: Tokens, segments: Tokens, layout: Layout, last: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels; where each text's last token is doesn't matter."""
        del last
        return self.classify(self(tokens, segments, layout), layout)


class CausalClassifier(CausalDecoder):
    """A causal language model that labels a text by its last token's state.

    GPT (Radford et al. 2018, section 3.3): a linear map of the state of an extract token at the
    end, with dropout before it. It goes on predicting tokens, for the auxiliary loss. Its parts
    have the names that they have in the language model.

    Args:
        config: The recipe's section; of its layers the decoder's count.
        vocab_size: Number of pieces.
        num_labels: Number of labels.
    """

    def __init__(self, config: Model, vocab_size: int, num_labels: int) -> None:
        super().__init__(config, vocab_size)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, num_labels)
        initialize(self, std=config.initial_std)

    def classify(
        self, states: States, layout: Layout, last: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels.

        Args:
            states: Of the tokens.
            layout: Their layout.
            last: Where the last token of each text is, among all that aren't padding.
        """
        logits: Tensor = self.classifier(self.dropout(layout.select_tokens(states)[last]))
        return logits

    def label(
        self, tokens: Tokens, segments: Tokens, layout: Layout, last: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels; which of two texts a token is of doesn't matter."""
        del segments
        return self.classify(self(tokens, layout), layout, last)
