"""Texts to be labelled, as tokens: joined and cut, then as a classifier reads them.

A row is a text's tokens and `</s>`; of a pair, both texts with a `</s>` each. `<s>` goes before it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batches.collate import RowLayout, lay_out_side, spread
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.errors import MtkitError
from mtkit.network import Layout
from mtkit.network.device import Sendable
from mtkit.recipe.objective import ClassifierKind
from mtkit.text.token_ids import BOS, CLOSING_PIECES, EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer

ClosingTokens = tuple[int, int]
"""What a causal classifier has in place of `</s>`: the delimiter behind the first text of a pair,
the extract token at the end."""


@dataclass(frozen=True)
class ExampleBatch(Sendable):
    """Texts as tensors, for a classifier.

    Attributes:
        inputs: int64, of the layout's shape: of each text `<s>`, its tokens and what closes them.
        segments: int64, likewise: 0 up to the first closing token, 1 behind it.
        layout: Where the texts stand.
        tokens: int64 [tokens]: the inputs without padding, text after text.
        last: int64 [texts]: where each one's last token is, among all that aren't padding.
        labels: int64 [texts]: the number of each one's label.
    """

    inputs: Tensor
    segments: Tensor
    layout: Layout
    tokens: Tensor
    last: Tensor
    labels: Tensor


def find_closing(tokenizer: SubwordTokenizer, kind: ClassifierKind) -> ClosingTokens | None:
    """Returns the tokens that close the texts of a classifier; None where `</s>` does.

    Raises:
        MtkitError: The vocabulary lacks one.
    """
    if kind == "masked-lm":
        return None
    delimiter, extract = map(tokenizer.source_vocabulary.id_of, CLOSING_PIECES)
    if UNK in (delimiter, extract):
        raise MtkitError(
            f"the vocabulary lacks {' or '.join(CLOSING_PIECES)}, which a classifier of GPT's kind "
            "needs",
            "run `mtkit prepare` again",
        )
    return delimiter, extract


def add_begin(rows: Ragged) -> Ragged:
    """Returns rows with `<s>` before each."""
    begins = np.cumsum(rows.lengths) - rows.lengths
    return Ragged(np.insert(rows.tokens, begins, BOS), rows.lengths + 1)


def collate_examples(
    rows: Ragged,
    labels: Indices,
    layout: RowLayout,
    *,
    closing: ClosingTokens | None,
) -> ExampleBatch:
    """Returns texts as one batch.

    Args:
        rows: Of each, `<s>`, its tokens and `</s>`, of a pair twice.
        labels: The number of each one's label, [texts].
        layout: A layout of their lengths.
        closing: What a causal classifier has in place of `</s>`; None for another.
    """
    ends = np.cumsum(rows.lengths)
    is_end = rows.tokens == EOS
    # Behind the first `</s>` of its row.
    ended = np.cumsum(is_end) - is_end
    before = np.repeat(ended[ends - rows.lengths], rows.lengths)
    segments = np.minimum(ended - before, 1)
    tokens = rows.tokens.copy()
    if closing is not None:
        tokens[is_end] = closing[0]
        tokens[ends - 1] = closing[1]
    return ExampleBatch(
        inputs=spread(tokens, layout),
        segments=spread(segments, layout, padding=0),
        layout=layout,
        tokens=torch.from_numpy(tokens),
        last=torch.from_numpy(ends - 1),
        labels=torch.from_numpy(labels.astype(np.int64)),
    )


def collate_together(rows: Ragged, labels: Indices, closing: ClosingTokens | None) -> ExampleBatch:
    """Returns texts as one batch with padding; `rows` have no `<s>` yet."""
    rows = add_begin(rows)
    layout = lay_out_side(rows.lengths, [len(rows)])
    return collate_examples(rows, labels, layout, closing=closing)
