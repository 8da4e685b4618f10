"""Tokens and spans hidden from a language model, drawn anew in each epoch.

Masking: of each input a share of its tokens of text is predicted, to the whole number next to it,
at least one (BERT, arXiv 1810.04805, section 3.1, task 1). Of these most give way to `<mask>`, some
to a random piece, and the rest stay as they are: a draw for each token, as in the authors' code.
`<s>` and `</s>` are neither predicted nor drawn.

Text infilling (BART, arXiv 1910.13461, section 2.2): spans of a text, with lengths of a Poisson
distribution, are each replaced by one `<mask>`, whatever their length; one of no tokens inserts a
`<mask>`. Here:

- Of each text a share of its tokens is hidden, to the nearest whole number and at least one. The
  span with which that number is reached is cut to fit, as in the authors' code
  (`denoising_dataset.py`). There are at most as many spans as hidden tokens, so that no corrupted
  text is longer than the text was.
- Spans don't overlap; each arrangement of spans and visible tokens is as likely as another.
- The `</s>` of sentences inside a block are left out: `</s>` ends a text, as a translator's.

Both are pure functions of the words that they are given, the epoch and the block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.permutation import derive_keys_of, permute, scale_keys
from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.data.batches.segments import Segments
from mtkit.data.batches.token_store import TokenStore
from mtkit.recipe.masking import Masking
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import EOS, SPECIAL_PIECES
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


_INFILLING_STREAM = 7
"""Parts these draws from those of other streams, which have 0 to 6."""
_LENGTH, _PLACE = range(2)
_INDEX_BITS = 20
"""Of a span's number in its text, which has at most a million tokens."""


class DenoisingTexts(NamedTuple):
    """Texts as they are read, and as they were, each closed by `</s>`."""

    source: Ragged
    target: Ragged


class InfillingReader:
    """Reads blocks of text as corrupted sources and their targets.

    Args:
        store: The blocks, a column `text` whose sentences each end with `</s>`.
        denoising: How much is hidden, and in what spans.
        mask_token: Id of `<mask>`.
        words: Non-negative numbers that name the draws: the recipe's seed, say.
    """

    def __init__(
        self, store: TokenStore, denoising: Denoising, *, mask_token: int, words: Sequence[int]
    ) -> None:
        self._store = store
        self._denoising = denoising
        self._mask_token = mask_token
        self._words = tuple(words)
        self._thresholds = _accumulate_poisson(denoising.mean_span)

    def bound(self, rows: Indices) -> Indices:
        """Returns how long source and target of some blocks may be in any epoch, [rows]."""
        # A sentence that was cut has no `</s>`, and gets one.
        lengths: Indices = self._store.lengths(rows)["text"] + 1
        return lengths

    def read(self, rows: Indices, epoch: int) -> DenoisingTexts:
        """Returns some blocks as they are in an epoch, in the order asked for."""
        target = self.read_targets(rows)
        return DenoisingTexts(self.corrupt(target, rows, epoch), target)

    def read_targets(self, rows: Indices) -> Ragged:
        """Returns the text of some blocks, with one `</s>`, at its end."""
        text = self._store.gather(rows, ["text"])["text"]
        is_text = text.tokens != EOS
        owners = np.repeat(np.arange(len(rows)), text.lengths)
        lengths = np.bincount(owners[is_text], minlength=len(rows)) + 1
        tokens = np.full(int(lengths.sum()), EOS, dtype=np.int64)
        tokens[join_ranges(np.cumsum(lengths) - lengths, lengths - 1)] = text.tokens[is_text]
        return Ragged(tokens, lengths)

    def corrupt(self, target: Ragged, rows: Indices, epoch: int) -> Ragged:
        """Returns texts, each closed by `</s>`, with spans replaced as they are in an epoch.

        Args:
            target: The texts.
            rows: The number of each one's block, which its draws hang on.
            epoch: The epoch.
        """
        sizes = target.lengths - 1
        rows = rows.astype(np.int64)
        num_hidden = self._count_hidden(sizes)
        owners, lengths = self._draw_lengths(num_hidden, rows, epoch)
        counts = np.bincount(owners, minlength=len(rows))
        # A text of `<mask>` and visible tokens, in which any order is as likely as another.
        source_lengths = sizes - num_hidden + counts + 1
        begins = np.cumsum(source_lengths) - source_lengths
        slots = begins[owners] + permute(
            join_ranges(np.zeros_like(counts), counts),
            (source_lengths - 1)[owners],
            derive_keys_of(rows, _INFILLING_STREAM, *self._words, epoch, _PLACE)[owners],
        )
        order = np.argsort(slots)
        slots, lengths = slots[order], lengths[order]
        # Each span begins behind what is hidden before it and seen before it.
        hidden_before = np.cumsum(lengths) - lengths
        seen_before = slots - np.arange(len(slots))
        is_visible = np.ones(len(target.tokens), dtype=np.bool_)
        is_visible[join_ranges(seen_before + hidden_before, lengths)] = False
        is_mask = np.zeros(int(source_lengths.sum()), dtype=np.bool_)
        is_mask[slots] = True
        source = np.full(len(is_mask), self._mask_token, dtype=np.int64)
        source[~is_mask] = target.tokens[is_visible]
        return Ragged(source, source_lengths)

    def _count_hidden(self, sizes: Indices) -> Indices:
        """Returns how many tokens are hidden of texts of so many."""
        counts = np.rint(sizes * self._denoising.share).astype(np.int64)
        found: Indices = np.minimum(np.maximum(counts, 1), sizes)
        return found

    def _draw_lengths(
        self, num_hidden: Indices, rows: Indices, epoch: int
    ) -> tuple[Indices, Indices]:
        """Returns the text that each span is of, rising, and its length."""
        owners = np.repeat(np.arange(len(rows)), num_hidden)
        indices = join_ranges(np.zeros_like(num_hidden), num_hidden)
        keys = derive_keys_of(
            rows[owners] << _INDEX_BITS | indices, _INFILLING_STREAM, *self._words, epoch, _LENGTH
        )
        draws = scale_keys(keys, np.full_like(owners, _SCALE))
        lengths = np.searchsorted(self._thresholds, draws, side="right")
        limits = num_hidden[owners]
        # The last one that there may be takes all that is left.
        lengths = np.where(indices == limits - 1, limits, lengths)
        totals = np.append(0, np.cumsum(lengths))
        before = totals[:-1] - totals[np.cumsum(num_hidden) - num_hidden][owners]
        is_used = before < limits
        return owners[is_used], np.minimum(lengths, limits - before)[is_used]


def _accumulate_poisson(mean: float) -> NDArray[np.int64]:
    """Returns how many of `_SCALE` draws of a Poisson distribution are 0, up to 1, up to 2, ..."""
    # Far beyond the mean less than one draw of `_SCALE` is left.
    numbers = np.arange(1, round(mean + 12.0 * np.sqrt(mean) + 20.0))
    logs = np.append(0.0, np.cumsum(np.log(mean / numbers))) - mean
    found: NDArray[np.int64] = np.rint(np.cumsum(np.exp(logs)) * _SCALE).astype(np.int64)
    return found
