"""Labelled texts as tokens in the form a classifier reads.

A row is a text's tokens and `</s>`; for a pair, both texts with a `</s>` each. `<s>` is added in
front.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batches.collate import RowLayout, lay_out_side, spread_tokens
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.errors import MtkitError
from mtkit.network import Layout
from mtkit.network.device import Sendable
from mtkit.recipe.objective import ClassifierKind
from mtkit.text.token_ids import BOS, CLOSING_PIECES, EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer

ClosingTokens = tuple[int, int]
"""The delimiter after a pair's first text and the final extract token, which a causal classifier
uses instead of `</s>`."""


@dataclass(frozen=True)
class ExampleBatch(Sendable):
    """Texts as tensors, for a classifier.

    Attributes:
        inputs: int64, in the layout's shape; `<s>`, the text's tokens and its closing tokens.
        segments: int64, in the same shape; 0 up to the first closing token, then 1.
        tokens: int64 [tokens], the inputs without padding.
        last: int64 [texts], index of each text's last token in `tokens`.
        labels: int64 [texts].
    """

    inputs: Tensor
    segments: Tensor
    layout: Layout
    tokens: Tensor
    last: Tensor
    labels: Tensor


def find_closing(tokenizer: SubwordTokenizer, kind: ClassifierKind) -> ClosingTokens | None:
    """Returns the closing tokens of a classifier's texts; None for `</s>`."""
    if kind == "masked-lm":
        return None
    delimiter, extract = map(tokenizer.source_vocabulary.id_of, CLOSING_PIECES)
    if UNK in (delimiter, extract):
        raise MtkitError(
            f"the vocabulary lacks {' or '.join(CLOSING_PIECES)}, which a GPT-style classifier "
            "needs",
            "run `mtkit prepare` again",
        )
    return delimiter, extract


def add_begin(rows: Ragged) -> Ragged:
    """Returns the rows with `<s>` in front."""
    begins = np.cumsum(rows.lengths) - rows.lengths
    return Ragged(np.insert(rows.tokens, begins, BOS), rows.lengths + 1)


def collate_examples(
    rows: Ragged,
    labels: Indices,
    layout: RowLayout,
    *,
    closing: ClosingTokens | None,
) -> ExampleBatch:
    """Returns rows with `<s>` and `</s>` as one batch; `closing`, if any, replaces each `</s>`."""
    ends = np.cumsum(rows.lengths)
    is_end = rows.tokens == EOS
    # After the first `</s>` of its row.
    ended = np.cumsum(is_end) - is_end
    before = np.repeat(ended[ends - rows.lengths], rows.lengths)
    segments = np.minimum(ended - before, 1)
    tokens = rows.tokens.copy()
    if closing is not None:
        tokens[is_end] = closing[0]
        tokens[ends - 1] = closing[1]
    return ExampleBatch(
        inputs=spread_tokens(tokens, layout),
        segments=spread_tokens(segments, layout, padding=0),
        layout=layout,
        tokens=torch.from_numpy(tokens),
        last=torch.from_numpy(ends - 1),
        labels=torch.from_numpy(labels.astype(np.int64)),
    )


def collate_together(rows: Ragged, labels: Indices, closing: ClosingTokens | None) -> ExampleBatch:
    """Returns rows without `<s>` as one padded batch."""
    rows = add_begin(rows)
    layout = lay_out_side(rows.lengths, [len(rows)])
    return collate_examples(rows, labels, layout, closing=closing)
