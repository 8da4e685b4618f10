"""A masked language model: the encoder alone (BERT, arXiv 1810.04805)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.network.feed_forward import activate
from mtkit.network.initialization import initialize
from mtkit.network.layer_norm import LayerNorm
from mtkit.network.layout import Layout
from mtkit.network.projecting import ProjectingNetwork
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model


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

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        segments: Int[Tensor, "batch length"],
        layout: Layout,
    ) -> Float[Tensor, "batch length d_model"]:
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

    def classify_pair(
        self, states: Float[Tensor, "batch length d_model"], layout: Layout
    ) -> Float[Tensor, "sentences 2"]:
        """Returns the logits of "follows" (0) and "doesn't follow" (1), from the encoded tokens.

        They come from each text's first token, `<s>`, through a linear map and tanh.
        """
        assert self.pooler is not None, "a network without next-sentence prediction"
        assert self.next_sentence is not None
        pooled = torch.tanh(self.pooler(layout.select_first(states)))
        logits: Tensor = self.next_sentence(pooled)
        return logits
