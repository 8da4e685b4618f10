"""Hides tokens and spans from a model, with new draws in each epoch.

Masking (BERT, arXiv 1810.04805, section 3.1, task 1): a share of each input's text tokens is
predicted, rounded, and at least one. Most of these become `<mask>`, some a random piece, and the
rest stay. Each token is drawn separately, as in the authors' code. `<s>` and `</s>` are neither
predicted nor drawn.

Text infilling (BART, arXiv 1910.13461, section 2.2): each span of a text is replaced by one
`<mask>`; span lengths follow a Poisson distribution, and an empty span inserts a `<mask>`. Here:

- A share of each text's tokens is masked, rounded, and at least one. The last span is cut to fit,
  as in the authors' code (`denoising_dataset.py`). There are at most as many spans as masked
  tokens, so that a corrupted text is never longer than the original.
- Spans don't overlap. All arrangements of spans and visible tokens are equally likely.
- `</s>` ends a text, as in translation, so the `</s>` of sentences inside a block are removed.

All are pure functions of the seed words, the epoch and the row.
"""

from abc import ABC, abstractmethod
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
"""Words for held-out text, so that its masked tokens don't depend on the seed, which is smaller."""
_MASKING_STREAM = 6
"""Keeps these draws apart from those of segments, which use 5."""
_CHOICE, _FATE, _PIECE = range(3)
_SCALE = 1 << 30
_POSITION_BITS = 20
"""For a position in an input, which has at most a million tokens."""


@dataclass(frozen=True)
class MaskedTokens:
    """The predicted tokens of some inputs.

    Attributes:
        inputs: int64 [tokens], all tokens of the inputs, with the masked ones replaced.
        indices: int64 [predicted], ascending, which of them are predicted.
        outputs: int64 [predicted], the original tokens.
    """

    inputs: Indices
    indices: Indices
    outputs: Indices


class TokenMasker:
    """Hides tokens.

    `pieces` are the ids that random pieces are drawn from. `words` are non-negative numbers that
    seed the draws, such as the recipe's seed.
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
        """Returns a vocabulary's masker; random pieces are all pieces except special ones."""
        vocabulary = tokenizer.source_vocabulary
        mask_token = tokenizer.mask_token
        special = (*map(vocabulary.id_of, SPECIAL_PIECES), mask_token)
        pieces = np.setdiff1d(np.arange(len(vocabulary)), special)
        return cls(masking, mask_token=mask_token, pieces=pieces, words=words)

    def count(self, num_text_tokens: Indices) -> Indices:
        """Returns how many tokens are predicted in inputs with that many text tokens."""
        return _count_share(num_text_tokens, self._masking.share)

    def mask(self, segments: Segments, rows: Indices, epoch: int) -> MaskedTokens:
        """Returns the inputs of some blocks with the tokens masked that an epoch masks."""
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
        is_mask = fates < round(self._masking.mask * _SCALE)
        keeps = fates >= round((self._masking.mask + self._masking.random) * _SCALE)
        inputs = segments.tokens.tokens.copy()
        inputs[indices] = np.where(is_mask, self._mask_token, np.where(keeps, outputs, pieces))
        return MaskedTokens(inputs, indices, outputs)

    def _keys(self, numbers: Indices, epoch: int, kind: int) -> NDArray[np.uint64]:
        return derive_keys_of(numbers, _MASKING_STREAM, *self._words, epoch, kind)


def _count_share(sizes: Indices, share: float) -> Indices:
    """Returns a share of each number of tokens: rounded, and at least one if there is any."""
    counts = np.rint(sizes * share).astype(np.int64)
    found: Indices = np.minimum(np.maximum(counts, 1), sizes)
    return found


_INFILLING_STREAM = 7
"""Keeps these draws apart from those of other streams, which use 0 to 6."""
_LENGTH, _PLACE = range(2)
_INDEX_BITS = 20
"""For a span's number in its text, which has at most a million tokens."""


class DenoisingTexts(NamedTuple):
    """Corrupted and original texts, each closed by `</s>`."""

    source: Ragged
    target: Ragged


class DenoisingReader(ABC):
    """Reads blocks of text as corrupted sources and their targets.

    The store's column `text` has sentences that each end with `</s>`; `words` seed the draws.
    """

    def __init__(self, store: TokenStore, words: Sequence[int]) -> None:
        self._store = store
        self._words = tuple(words)

    def bound(self, rows: Indices) -> Indices:
        """Returns the maximum length of source and target in any epoch, [rows]."""
        # A cut sentence has no `</s>`, and gets one.
        lengths: Indices = self._store.lengths(rows)["text"] + 1
        return lengths

    def read(self, rows: Indices, epoch: int) -> DenoisingTexts:
        """Returns blocks as they are in an epoch, in the order of `rows`."""
        target = self.read_targets(rows)
        return DenoisingTexts(self.corrupt(target, rows, epoch), target)

    def read_targets(self, rows: Indices) -> Ragged:
        """Returns the blocks' text with a single `</s>` at the end."""
        text = self._store.gather(rows, ["text"])["text"]
        is_text = text.tokens != EOS
        owners = np.repeat(np.arange(len(rows)), text.lengths)
        lengths = np.bincount(owners[is_text], minlength=len(rows)) + 1
        tokens = np.full(int(lengths.sum()), EOS, dtype=np.int64)
        tokens[join_ranges(np.cumsum(lengths) - lengths, lengths - 1)] = text.tokens[is_text]
        return Ragged(tokens, lengths)

    @abstractmethod
    def corrupt(self, target: Ragged, rows: Indices, epoch: int) -> Ragged:
        """Returns the texts as an epoch has them; `rows` seed the draws."""


class InfillingReader(DenoisingReader):
    """Replaces spans by `<mask>`."""

    def __init__(
        self, store: TokenStore, denoising: Denoising, *, mask_token: int, words: Sequence[int]
    ) -> None:
        super().__init__(store, words)
        self._denoising = denoising
        self._mask_token = mask_token
        self._thresholds = _accumulate_poisson(denoising.mean_span)

    def corrupt(self, target: Ragged, rows: Indices, epoch: int) -> Ragged:
        """Returns the texts with the spans replaced that an epoch masks; `rows` seed the draws."""
        sizes = target.lengths - 1
        rows = rows.astype(np.int64)
        num_masked = _count_share(sizes, self._denoising.share)
        owners, lengths = self._draw_lengths(num_masked, rows, epoch)
        counts = np.bincount(owners, minlength=len(rows))
        # Any order of `<mask>` and visible tokens is equally likely.
        source_lengths = sizes - num_masked + counts + 1
        begins = np.cumsum(source_lengths) - source_lengths
        slots = begins[owners] + permute(
            join_ranges(np.zeros_like(counts), counts),
            (source_lengths - 1)[owners],
            derive_keys_of(rows, _INFILLING_STREAM, *self._words, epoch, _PLACE)[owners],
        )
        order = np.argsort(slots)
        slots, lengths = slots[order], lengths[order]
        # A span begins after all tokens that are masked or visible before it.
        masked_before = np.cumsum(lengths) - lengths
        seen_before = slots - np.arange(len(slots))
        is_visible = np.ones(len(target.tokens), dtype=np.bool_)
        is_visible[join_ranges(seen_before + masked_before, lengths)] = False
        is_mask = np.zeros(int(source_lengths.sum()), dtype=np.bool_)
        is_mask[slots] = True
        source = np.full(len(is_mask), self._mask_token, dtype=np.int64)
        source[~is_mask] = target.tokens[is_visible]
        return Ragged(source, source_lengths)

    def _draw_lengths(
        self, num_masked: Indices, rows: Indices, epoch: int
    ) -> tuple[Indices, Indices]:
        """Returns each span's text index, ascending, and its length."""
        owners = np.repeat(np.arange(len(rows)), num_masked)
        indices = join_ranges(np.zeros_like(num_masked), num_masked)
        keys = derive_keys_of(
            rows[owners] << _INDEX_BITS | indices, _INFILLING_STREAM, *self._words, epoch, _LENGTH
        )
        draws = scale_keys(keys, np.full_like(owners, _SCALE))
        lengths = np.searchsorted(self._thresholds, draws, side="right")
        limits = num_masked[owners]
        # The last possible span takes all that is left.
        lengths = np.where(indices == limits - 1, limits, lengths)
        totals = np.append(0, np.cumsum(lengths))
        before = totals[:-1] - totals[np.cumsum(num_masked) - num_masked][owners]
        is_used = before < limits
        return owners[is_used], np.minimum(lengths, limits - before)[is_used]


def _accumulate_poisson(mean: float) -> NDArray[np.int64]:
    """Returns how many of `_SCALE` Poisson draws are 0, up to 1, up to 2, and so on."""
    # Far above the mean, less than one of `_SCALE` draws is left.
    numbers = np.arange(1, round(mean + 12.0 * np.sqrt(mean) + 20.0))
    logs = np.append(0.0, np.cumsum(np.log(mean / numbers))) - mean
    found: NDArray[np.int64] = np.rint(np.cumsum(np.exp(logs)) * _SCALE).astype(np.int64)
    return found
