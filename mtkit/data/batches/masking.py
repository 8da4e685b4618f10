"""Tokens hidden from a masked language model, drawn anew in each epoch.

Of each input a share of its tokens of text is predicted, to the whole number next to it, at least
one (BERT, arXiv 1810.04805, section 3.1, task 1). Of these most give way to `<mask>`, some to a
random piece, and the rest stay as they are: a draw for each token, as in the authors' code.
`<s>` and `</s>` are neither predicted nor drawn.

A pure function of the words that a masker is given, the epoch and the block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.permutation import derive_keys_of, permute, scale_keys
from mtkit.data.batches.ragged import Indices, join_ranges
from mtkit.data.batches.segments import Segments
from mtkit.recipe.masking import Masking
from mtkit.text.token_ids import SPECIAL_PIECES
from mtkit.text.tokenizer import SubwordTokenizer

FIXED_WORDS = (1 << 32,)
"""Words of the draws of held-out text, in place of a recipe's seed, which is smaller: such text has
the same tokens hidden whatever the seed."""
_MASKING_STREAM = 6
"""Parts these draws from those of segments, which have 5."""
_CHOICE, _FATE, _PIECE = range(3)
_SCALE = 1 << 30
_POSITION_BITS = 20
"""Of a position in an input, which has at most a million tokens."""


@dataclass(frozen=True)
class HiddenTokens:
    """What is predicted of some inputs.

    Attributes:
        inputs: int64 [tokens]: all tokens of the inputs, hidden ones replaced.
        indices: int64 [predicted], rising: which of them are predicted.
        outputs: int64 [predicted]: the tokens that stood there.
    """

    inputs: Indices
    indices: Indices
    outputs: Indices


class TokenMasker:
    """Hides tokens.

    Args:
        masking: How many, and by what.
        mask_token: Id of `<mask>`.
        pieces: Ids that a random piece is drawn from.
        words: Non-negative numbers that name the draws: the recipe's seed, say.
    """

    def __init__(
        self, masking: Masking, *, mask_token: int, pieces: Indices, words: Sequence[int]
    ) -> None:
        self._masking = masking
        self._mask_token = mask_token
        self._pieces = pieces
        self._words = tuple(words)

    @classmethod
    def of(
        cls, masking: Masking, tokenizer: SubwordTokenizer, *, words: Sequence[int]
    ) -> "TokenMasker":
        """Returns the masker of a vocabulary; random pieces are all but the special ones.

        Raises:
            MtkitError: The vocabulary has no `<mask>`.
        """
        vocabulary = tokenizer.source_vocabulary
        mask_token = tokenizer.mask_token
        special = (*map(vocabulary.id_of, SPECIAL_PIECES), mask_token)
        pieces = np.setdiff1d(np.arange(len(vocabulary)), special)
        return cls(masking, mask_token=mask_token, pieces=pieces, words=words)

    def count(self, num_text_tokens: Indices) -> Indices:
        """Returns how many tokens are predicted of inputs with so many tokens of text."""
        counts = np.rint(num_text_tokens * self._masking.share).astype(np.int64)
        found: Indices = np.minimum(np.maximum(counts, 1), num_text_tokens)
        return found

    def hide(self, segments: Segments, rows: Indices, epoch: int) -> HiddenTokens:
        """Returns the inputs of some blocks with tokens hidden as they are in an epoch."""
        sizes = segments.num_text_tokens
        counts = self.count(sizes)
        chosen = permute(
            join_ranges(np.zeros_like(counts), counts),
            np.repeat(sizes, counts),
            np.repeat(self._keys(rows, epoch, _CHOICE), counts),
        )
        numbers = np.repeat(rows, counts) << _POSITION_BITS | chosen
        indices = segments.text_indices[np.repeat(np.cumsum(sizes) - sizes, counts) + chosen]
        order = np.argsort(indices)
        indices, numbers = indices[order], numbers[order]
        outputs = segments.tokens.tokens[indices]
        fates = scale_keys(self._keys(numbers, epoch, _FATE), np.full_like(numbers, _SCALE))
        sizes = np.full_like(numbers, len(self._pieces))
        pieces = self._pieces[scale_keys(self._keys(numbers, epoch, _PIECE), sizes)]
        hides = fates < round(self._masking.mask * _SCALE)
        keeps = fates >= round((self._masking.mask + self._masking.random) * _SCALE)
        inputs = segments.tokens.tokens.copy()
        inputs[indices] = np.where(hides, self._mask_token, np.where(keeps, outputs, pieces))
        return HiddenTokens(inputs, indices, outputs)

    def _keys(self, numbers: Indices, epoch: int, kind: int) -> NDArray[np.uint64]:
        return derive_keys_of(numbers, _MASKING_STREAM, *self._words, epoch, kind)
