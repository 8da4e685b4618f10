"""Classifiers of texts and of pairs of texts: a language model with a linear map of labels."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.dropout import Dropout
from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.network.initialization import initialize
from mtkit.network.layouts import Layout
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model


class MaskedClassifier(nn.Module):
    """A masked language model's encoder that labels a text by its first token's state.

    BERT (arXiv 1810.04805, section 4.1): a linear map and tanh, dropout, and a linear map to the
    labels. Its parts have the names that they have in the language model.

    Args:
        config: The recipe's section; of its layers the encoder's count.
        vocab_size: Number of pieces.
        num_labels: Number of labels.
    """

    def __init__(self, config: Model, vocab_size: int, num_labels: int) -> None:
        super().__init__()
        self.model = config
        tokens = TokenEmbedding(config, vocab_size)
        self.source_embedding = InputEmbedding(config, tokens, has_segments=True)
        self.encoder = TransformerStack(
            config, config.num_encoder_layers, cross_attention=False, is_causal=False
        )
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, num_labels)
        initialize(self, std=config.initial_std)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        segments: Int[Tensor, "batch length"],
        layout: Layout,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns the encoded tokens; vectors of padding hold no meaning.

        Args:
            tokens: `<s>`, the text, `</s>`; and, if there is one, the second text, `</s>`.
            segments: 0 at the tokens of the first text, its `<s>` and `</s>` included, 1 at those
                of the second.
            layout: Their layout.
        """
        states: Tensor = self.encoder(self.source_embedding(tokens, layout, segments), layout)
        return states

    def classify(
        self, states: Float[Tensor, "batch length d_model"], layout: Layout
    ) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels, from the encoded tokens."""
        pooled = torch.tanh(self.pooler(layout.select_first(states)))
        logits: Tensor = self.classifier(self.dropout(pooled))
        return logits

    def label(
        self,
        tokens: Int[Tensor, "batch length"],
        segments: Int[Tensor, "batch length"],
        layout: Layout,
        last: Int[Tensor, " texts"],
    ) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels; where each text's last token is doesn't matter."""
        del last
        return self.classify(self(tokens, segments, layout), layout)


class CausalClassifier(nn.Module):
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
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, num_labels)
        initialize(self, std=config.initial_std)

    def forward(
        self, tokens: Int[Tensor, "batch length"], layout: Layout
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns, for each position, the vector that predicts the next token.

        Args:
            tokens: `<s>`, the text, and, if there is one, the delimiter and the second text; the
                extract token.
            layout: Their layout.
        """
        states: Tensor = self.decoder(self.target_embedding(tokens, layout), layout)
        return states

    def classify(
        self,
        states: Float[Tensor, "batch length d_model"],
        layout: Layout,
        last: Int[Tensor, " texts"],
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
        self,
        tokens: Int[Tensor, "batch length"],
        segments: Int[Tensor, "batch length"],
        layout: Layout,
        last: Int[Tensor, " texts"],
    ) -> Float[Tensor, "texts labels"]:
        """Returns the logits of the labels; which of two texts a token is of doesn't matter."""
        del segments
        return self.classify(self(tokens, layout), layout, last)
