"""Classifiers of texts and of pairs of texts: a language model with a linear map of labels."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.causal_model import CausalDecoder
from mtkit.network.dropout import Dropout
from mtkit.network.initialization import initialize
from mtkit.network.layout import Layout
from mtkit.network.masked_model import MaskedEncoder
from mtkit.recipe.model import Model


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
