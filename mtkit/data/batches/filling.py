"""Packed batches in few shapes, each of which a GPU's kernels are recorded for once."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.ragged import join_ranges
from mtkit.network import PackedLayout
from mtkit.text.token_ids import PAD

_NUM_STEPS = 8
"""Steps in a full pass: some 15 shapes in all, and 5 to 7 % of padding (docs/log.md)."""
_ROW_MULTIPLE, _TOKENS_A_SENTENCE = 64, 4


@dataclass(frozen=True)
class Filling:
    """The shapes that packed batches are filled up to.

    Attributes:
        row_step: Tokens of each side are a multiple of it.
        max_length: Tokens of the longest sentence that may come.
    """

    row_step: int
    max_length: int

    @classmethod
    def of(cls, pass_tokens: int, max_length: int) -> "Filling":
        """Returns the shapes for passes of about so many tokens a side."""
        step = -(-pass_tokens // (_NUM_STEPS * _ROW_MULTIPLE)) * _ROW_MULTIPLE
        return cls(step, max_length)

    @property
    def num_fillers(self) -> int:
        """Sentences of padding in each batch, of at least one token a side."""
        return -(-self.row_step // max(1, self.max_length - 1))

    @property
    def sentence_step(self) -> int:
        """The number of sentences is a multiple of it."""
        return max(1, self.row_step // _TOKENS_A_SENTENCE)

    def fill_row(self, num_tokens: int) -> int:
        """Returns the tokens of a side with its padding."""
        return -(-(num_tokens + self.num_fillers) // self.row_step) * self.row_step

    def fill(self, batch: TranslationBatch) -> TranslationBatch:
        """Returns a packed batch with sentences of padding behind its own, and empty ones then.

        What they predict is padding, which the loss leaves out.
        """
        source, source_layout = self._fill_side(batch.source_tokens, batch.source_layout)
        target, target_layout = self._fill_side(batch.target_inputs, batch.target_layout)
        missing = target.shape[1] - len(batch.target_outputs)
        return replace(
            batch,
            source_tokens=source,
            source_layout=source_layout,
            target_inputs=target,
            target_layout=target_layout,
            target_outputs=nn.functional.pad(batch.target_outputs, (0, missing), value=PAD),
            is_filled=True,
        )

    def _fill_side(self, tokens: Tensor, layout: object) -> tuple[Tensor, PackedLayout]:
        assert isinstance(layout, PackedLayout), "filled batches are packed"
        assert layout.max_length <= self.max_length, "no sentence is longer"
        begin, count = tokens.shape[1], self.num_fillers
        missing = self.fill_row(begin) - begin
        lengths = np.full(count, missing // count)
        lengths[: missing % count] += 1
        num_real = len(layout.offsets) - 1
        num_empty = -(num_real + count) % self.sentence_step
        ends = np.append(begin + np.cumsum(lengths), np.full(num_empty, begin + missing))
        positions = torch.from_numpy(join_ranges(np.zeros_like(lengths), lengths))[None]
        filled = PackedLayout(
            torch.cat((layout.offsets, torch.from_numpy(ends.astype(np.int32)))),
            torch.cat((layout.positions, positions), dim=1),
            self.max_length,
        )
        return nn.functional.pad(tokens, (0, missing), value=PAD), filled
