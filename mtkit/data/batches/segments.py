"""Draws the two segments of a masked language model's input, with new draws in each epoch.

BERT (arXiv 1810.04805, section 3.1, task 2) reads `[CLS] A [SEP] B [SEP]` and predicts whether B
follows A in its document. Here [CLS] is `<s>` and [SEP] is `</s>`, sentence bounds inside a segment
are removed, and:

- A and B are the two sides of one of the block's sentence bounds, all bounds equally likely.
- In half of the blocks B is replaced by sentences of another document. They begin after a sentence
  bound of a block drawn from all other documents' blocks. As many whole sentences follow as fit, if
  necessary from the document's next block; if not even one fits, it is cut.
- A and the new B have at most as many tokens as the block. If the block isn't its document's last,
  and so is as full as whole sentences allow, they have at most a block's maximum. So neither length
  nor end reveals whether B follows.
- A block of one sentence, without an inner bound, never has a B that follows, as in the authors'
  code (`create_pretraining_data.py`). A is the sentence, its start or its end, and at most half as
  long as both may be.

All of it is a pure function of the seed words, the epoch and the block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.permutation import derive_keys_of, scale_keys
from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.data.batches.token_store import TokenStore
from mtkit.errors import MtkitError
from mtkit.text.token_ids import BOS, EOS

NUM_ADDED = 2
"""Maximum number of tokens that an input has in addition to its block's: `<s>`, and a `</s>`."""
_SEGMENT_STREAM = 5
"""Keeps these draws apart from those of epochs (0 to 3) and of subword sampling (4)."""
_NUM_SAMPLED = 1_000
_RANDOM, _BOUND, _ROW, _START, _HALF = range(5)


@dataclass(frozen=True)
class Segments:
    """Inputs before any token is masked.

    Attributes:
        tokens: `<s>`, the first segment, `</s>` and, if any, the second with `</s>`.
        segments: int64 [tokens], 0 up to the first `</s>`, then 1.
        text_indices: int64, indices of all tokens except `<s>` and `</s>`.
        num_text_tokens: How many of these each input has, [inputs].
        is_random: bool [inputs], whether the second segment is from another document; None without
            second segments.
    """

    tokens: Ragged
    segments: Indices
    text_indices: Indices
    num_text_tokens: Indices
    is_random: NDArray[np.bool_] | None


def check_segments(store: TokenStore, documents: Indices, what: str) -> None:
    """Checks that blocks can be read as two segments, from one document or two; samples them."""
    hint = (
        "--set training.masking.next_sentence=false; or see what separates documents and sentences "
        "(`documents` of the corpus)"
    )
    if documents[0] == documents[-1]:
        raise MtkitError(
            f"{what} is one document, but next-sentence prediction needs several: the second "
            "segment of half of the blocks is from another",
            hint,
        )
    rows = np.unique(np.linspace(0, len(store) - 1, _NUM_SAMPLED).astype(np.int64))
    text = store.gather(rows)["text"]
    is_bound = text.tokens == EOS
    is_bound[np.cumsum(text.lengths) - 1] = False
    if not is_bound.any():
        raise MtkitError(
            f"no block of {what} has two sentences, so no second segment ever follows the "
            "first (training.masking.next_sentence)",
            hint,
        )


def read_whole(text: Ragged) -> Segments:
    """Returns blocks as inputs of one segment: `<s>`, the text, `</s>`."""
    begins = np.cumsum(text.lengths) - text.lengths
    return _join(text.tokens, begins[:, None], text.lengths[:, None], None)


class SegmentReader:
    """Reads blocks as inputs.

    Args:
        store: Blocks with a column `text`, in which each sentence ends with `</s>`.
        documents: The number of each block's document, ascending.
        words: Non-negative numbers that seed the draws, such as the recipe's seed.
        max_tokens: Maximum length of an input.
        next_sentence: Whether inputs have two segments; see `check_segments`.
    """

    def __init__(
        self,
        store: TokenStore,
        documents: Indices,
        *,
        words: Sequence[int],
        max_tokens: int,
        next_sentence: bool,
    ) -> None:
        self._store = store
        self._documents = documents
        self._words = tuple(words)
        self._max_row = max_tokens - NUM_ADDED
        self.has_pairs = next_sentence

    def bound(self, rows: Indices) -> Indices:
        """Returns the maximum length of the blocks' inputs in any epoch, [rows]."""
        lengths = self._store.lengths(rows)["text"]
        return NUM_ADDED + (self._rooms(rows, lengths) if self.has_pairs else lengths)

    def read(self, rows: Indices, epoch: int) -> Segments:
        """Returns the blocks' inputs in an epoch, in the order of `rows`."""
        text = self._store.gather(rows, ["text"])["text"]
        if not self.has_pairs:
            return read_whole(text)
        rooms = self._rooms(rows, text.lengths)
        firsts, seconds, is_random = self._cut(rows, text, rooms, epoch)
        chosen = np.flatnonzero(is_random)
        # A cut sentence has no `</s>`, and gets one.
        is_open = text.tokens[firsts[0] + firsts[1] - 1] != EOS
        left = np.maximum(rooms - firsts[1] - is_open, 0)[chosen]
        others, (starts, sizes) = self._draw(rows[chosen], left, epoch)
        seconds[0][chosen], seconds[1][chosen] = len(text.tokens) + starts, sizes
        return _join(
            np.concatenate((text.tokens, others)),
            np.stack((firsts[0], seconds[0]), axis=1),
            np.stack((firsts[1], seconds[1]), axis=1),
            is_random,
        )

    def _keys(self, rows: Indices, epoch: int, kind: int) -> NDArray[np.uint64]:
        return derive_keys_of(rows, _SEGMENT_STREAM, *self._words, epoch, kind)

    def _rooms(self, rows: Indices, lengths: Indices) -> Indices:
        """Returns how many tokens both segments of each block may have, including `</s>`."""
        followers = np.minimum(rows + 1, len(self._documents) - 1)
        is_last = (followers == rows) | (self._documents[followers] != self._documents[rows])
        rooms: Indices = np.where(is_last, lengths, np.maximum(self._max_row, lengths))
        return rooms

    def _cut(
        self, rows: Indices, text: Ragged, rooms: Indices, epoch: int
    ) -> tuple[tuple[Indices, Indices], tuple[Indices, Indices], NDArray[np.bool_]]:
        """Returns start and length of both sides of a bound, and which blocks get another B."""
        begins = np.cumsum(text.lengths) - text.lengths
        ends = np.flatnonzero(text.tokens == EOS) + 1
        # A block may begin with the `</s>` of a cut sentence, which isn't a bound.
        lows = np.searchsorted(ends, begins + 1, side="right")
        counts = np.searchsorted(ends, begins + text.lengths, side="left") - lows
        has_bound = counts > 0
        picked = lows + scale_keys(self._keys(rows, epoch, _BOUND), np.maximum(counts, 1))
        bounds = begins + text.lengths
        bounds[has_bound] = ends[picked[has_bound]]
        two = np.full_like(rows, 2)
        is_random = (scale_keys(self._keys(rows, epoch, _RANDOM), two) == 1) | ~has_bound
        # At least two, because the last one may be `</s>`.
        halves = np.minimum(text.lengths, np.maximum((rooms + 1) // 2, 2))
        lengths = np.where(has_bound, bounds - begins, halves)
        is_back = ~has_bound & (scale_keys(self._keys(rows, epoch, _HALF), two) == 1)
        firsts = np.where(is_back, bounds - lengths, begins), lengths
        return firsts, (bounds, begins + text.lengths - bounds), is_random

    def _draw(
        self, rows: Indices, rooms: Indices, epoch: int
    ) -> tuple[Indices, tuple[Indices, Indices]]:
        """Returns tokens, and ranges of other documents' text that fit `rooms` with a `</s>`."""
        documents = self._documents[rows]
        begins = np.searchsorted(self._documents, documents, side="left")
        ends = np.searchsorted(self._documents, documents, side="right")
        others = len(self._documents) - (ends - begins)
        drawn = scale_keys(self._keys(rows, epoch, _ROW), others)
        drawn = np.where(drawn < begins, drawn, drawn + ends - begins)
        followers = np.minimum(drawn + 1, len(self._documents) - 1)
        goes_on = (followers != drawn) & (self._documents[followers] == self._documents[drawn])
        taken = np.stack((drawn, followers), axis=1)
        is_taken = np.stack((np.ones_like(goes_on), goes_on), axis=1)
        text = self._store.gather(taken[is_taken], ["text"])["text"]
        sizes = np.zeros(taken.shape, dtype=np.int64)
        sizes[is_taken] = text.lengths
        lengths = sizes.sum(axis=1)
        firsts = np.cumsum(lengths) - lengths
        is_end = text.tokens == EOS
        is_end[firsts + lengths - 1] = True
        bounds = np.flatnonzero(is_end) + 1
        lows = np.searchsorted(bounds, firsts, side="right")
        counts = np.searchsorted(bounds, firsts + sizes[:, 0], side="left") - lows
        picked = lows + scale_keys(self._keys(rows, epoch, _START), np.maximum(counts, 1))
        starts = np.where(counts > 0, bounds[np.minimum(picked, len(bounds) - 1)], firsts)
        limits = np.minimum(starts + rooms, firsts + lengths)
        # The last bound within reach, or -1.
        stops = np.append(-1, bounds)[np.searchsorted(bounds, limits, side="right")]
        # A cut sentence gets a `</s>`.
        cut = np.minimum(starts + np.maximum(rooms - 1, 0), firsts + lengths)
        return text.tokens, (starts, np.where(stops > starts, stops, cut) - starts)


def _join(
    tokens: Indices, begins: Indices, lengths: Indices, is_random: NDArray[np.bool_] | None
) -> Segments:
    """Returns inputs of one or two segments; ranges of tokens are [inputs, segments]."""
    num_segments = begins.shape[1]
    text = tokens[join_ranges(begins.ravel(), lengths.ravel())]
    owners = np.repeat(np.arange(lengths.size), lengths.ravel())
    is_text = text != EOS
    counts = np.bincount(owners[is_text], minlength=lengths.size).reshape(lengths.shape)
    # Each segment ends with `</s>`, and the first starts with `<s>`.
    sizes = counts + 1
    sizes[:, 0] += 1
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    text_indices = join_ranges((ends - 1 - counts).ravel(), counts.ravel())
    joined = np.full(int(sizes.sum()), EOS, dtype=np.int64)
    joined[ends[:, 0] - sizes[:, 0]] = BOS
    joined[text_indices] = text[is_text]
    segments = np.repeat(np.tile(np.arange(num_segments), len(sizes)), sizes.ravel())
    return Segments(
        Ragged(joined, sizes.sum(axis=1)),
        segments,
        text_indices,
        counts.sum(axis=1),
        is_random,
    )
