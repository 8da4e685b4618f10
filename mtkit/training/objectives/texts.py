"""The batches of language models and classifiers, which learn from text in one language."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from mtkit.data.batches.collate import (
    LayOut,
    MaskedBatch,
    TextBatch,
    TranslationBatch,
    collate_masked,
    collate_pairs,
    collate_text,
)
from mtkit.data.batches.examples import (
    ClosingTokens,
    ExampleBatch,
    add_begin,
    collate_examples,
    find_closing,
)
from mtkit.data.batches.masking import (
    DenoisingReader,
    DenoisingTexts,
    InfillingReader,
    MaskedTokens,
    TokenMasker,
)
from mtkit.data.batches.numbered_texts import NumberedTexts
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.segments import NUM_ADDED, SegmentReader, Segments, check_segments
from mtkit.data.batches.updates import EpochPlan
from mtkit.recipe.training import Classification, Denoising
from mtkit.text.token_ids import EOS
from mtkit.training.objectives.stored import StoredBatches, make_dummy_side

MaskedTexts = tuple[Segments, MaskedTokens]


@dataclass(frozen=True)
class _Blocks:
    """Blocks of one length, numbered from `first`."""

    text: NumberedTexts
    first: int
    reader: SegmentReader


class MaskedBatches(StoredBatches[MaskedTexts, MaskedBatch]):
    """Blocks of text with an epoch's segments and masked tokens, for a masked model (BERT).

    The first `short_updates` of `max_steps` use short blocks, if the recipe has any. An example is
    the number of a block; short blocks come after all others.
    """

    @cached_property
    def _masker(self) -> TokenMasker:
        masking = self._recipe.training.masked
        return TokenMasker.of(masking, self._data.tokenizer, words=(self._recipe.seed,))

    @cached_property
    def _long(self) -> "_Blocks":
        data = self._data
        assert data.documents is not None, "pairs"
        blocks = NumberedTexts(data.train, data.train_order, data.documents)
        return self._open_blocks(blocks, 0, self._recipe.data.block_tokens)

    @cached_property
    def _short(self) -> "_Blocks | None":
        blocks, max_tokens = self._data.train_short, self._recipe.training.masked.short_tokens
        if blocks is None or max_tokens is None:
            return None
        return self._open_blocks(blocks, len(self._data.train), max_tokens)

    def _open_blocks(self, text: NumberedTexts, first: int, max_tokens: int) -> "_Blocks":
        next_sentence = self._recipe.training.masked.next_sentence
        if next_sentence:
            check_segments(text.store, text.numbers, "the training text")
        # Short blocks draw differently from the others.
        words = (self._recipe.seed, first)
        reader = SegmentReader(
            text.store,
            text.numbers,
            words=words,
            max_tokens=max_tokens,
            next_sentence=next_sentence,
        )
        return _Blocks(text, first, reader)

    def _list_stages(self) -> list[tuple[int | None, Callable[[int], EpochPlan]]]:
        """Returns the updates with short blocks, if any, and then all others."""
        stages, short = super()._list_stages(), self._short
        if short is None:
            return stages
        training = self._recipe.training
        count = round(training.masked.short_updates * training.max_steps)
        [stage] = self._recipe.stages
        order = short.text.order
        plan = partial(self._plan_rows, order, stage.weights, first_row=short.first)
        return [(count, plan), *stages]

    def _find(self, examples: Indices) -> tuple["_Blocks", Indices]:
        """Returns the blocks that an update's examples belong to, and their rows."""
        blocks = self._long
        if self._short is not None and examples[0] >= self._short.first:
            blocks = self._short
        return blocks, examples - blocks.first

    def lengths(self, examples: Indices) -> dict[str, Indices]:
        """Returns the tokens of the blocks, including `</s>`."""
        blocks, rows = self._find(examples)
        return blocks.text.store.lengths(rows)

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of the longest possible inputs from these blocks."""
        blocks, found = self._find(rows)
        return [blocks.reader.bound(found)]

    def bound_longest(self) -> int:
        """Returns the tokens of the longest input."""
        return min(self.longest, super().bound_longest() + NUM_ADDED)

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the number of predicted tokens of these blocks in an epoch."""
        blocks, rows = self._find(examples)
        segments = blocks.reader.read(rows, epoch)
        return int(self._masker.count(segments.num_text_tokens).sum())

    def read(self, rows: Indices, epoch: int) -> MaskedTexts:
        """Returns blocks as segments, with their masked tokens."""
        blocks, found = self._find(rows)
        segments = blocks.reader.read(found, epoch)
        return segments, self._masker.mask(segments, rows, epoch)

    def collate(self, examples: MaskedTexts, lay_out: LayOut) -> MaskedBatch:
        """Returns segments with masked tokens as a batch."""
        segments, masked = examples
        return collate_masked(segments, masked, lay_out(segments.tokens.lengths))

    def make_dummy(self, count: int, length: int) -> MaskedTexts:
        """Returns `count` inputs of this length."""
        tokens = make_dummy_side(count, length)
        num_tokens = count * length
        segments = Segments(
            tokens,
            np.zeros(num_tokens, dtype=np.int64),
            np.arange(num_tokens).reshape(count, length)[:, 1:-1].ravel(),
            np.full(count, length - 2),
            np.zeros(count, dtype=np.bool_) if self._long.reader.has_pairs else None,
        )
        return segments, self._masker.mask(segments, np.arange(count), 0)


class CausalBatches(StoredBatches[Ragged, TextBatch]):
    """Blocks of text, for a causal language model (GPT).

    Every token of a block is predicted, including `</s>`; the first one from `<s>` alone.
    """

    def read(self, rows: Indices, epoch: int) -> Ragged:
        """Returns blocks."""
        return self._data.train.gather(rows)["text"]

    def collate(self, examples: Ragged, lay_out: LayOut) -> TextBatch:
        """Returns blocks as a batch."""
        return collate_text(examples, lay_out(examples.lengths))

    def make_dummy(self, count: int, length: int) -> Ragged:
        """Returns `count` blocks of this length."""
        return make_dummy_side(count, length)


class DenoisingBatches(StoredBatches[DenoisingTexts, TranslationBatch]):
    """Blocks of text with an epoch's masked spans, and the original text (BART).

    The network and the loss are a translator's: `measure_translation` takes these batches.
    """

    @cached_property
    def _reader(self) -> DenoisingReader:
        return InfillingReader(
            self._data.train,
            self._recipe.training.denoising or Denoising(),
            mask_token=self._data.tokenizer.mask_token,
            words=(self._recipe.seed,),
        )

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of the longest possible sources of blocks, and of their targets."""
        lengths = self._reader.bound(rows)
        return [lengths, lengths]

    def bound_longest(self) -> int:
        """Returns the tokens of the longest text."""
        return min(self.longest, super().bound_longest() + 1)

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the tokens of these blocks' text, including `</s>`."""
        return len(self._reader.read_targets(examples).tokens)

    def read(self, rows: Indices, epoch: int) -> DenoisingTexts:
        """Returns texts with masked spans, and the original texts."""
        return self._reader.read(rows, epoch)

    def collate(self, examples: DenoisingTexts, lay_out: LayOut) -> TranslationBatch:
        """Returns texts as a translator's batch."""
        return collate_pairs(examples.source, examples.target, lay_out)

    def make_dummy(self, count: int, length: int) -> DenoisingTexts:
        """Returns `count` texts with this length on both sides."""
        return DenoisingTexts(*[make_dummy_side(count, length)] * 2)


def find_auxiliary_weight(classification: Classification) -> float:
    """Returns the weight of the language model's loss in a classifier."""
    return classification.auxiliary if classification.kind == "causal-lm" else 0.0


class LabelledBatches(StoredBatches[tuple[Ragged, Indices], ExampleBatch]):
    """Texts or pairs of texts with label ids, for a classifier."""

    @cached_property
    def _closing(self) -> ClosingTokens | None:
        return find_closing(self._data.tokenizer, self._recipe.classification.kind)

    def bound(self, rows: Indices) -> Sequence[Indices]:
        """Returns the tokens of texts, including `<s>`."""
        return [self.lengths(rows)["text"] + 1]

    def bound_longest(self) -> int:
        """Returns the tokens of the longest text, including `<s>`."""
        return super().bound_longest() + 1

    def count_target_tokens(self, examples: Indices, epoch: int) -> int:
        """Returns the denominator of a mean loss: texts, or tokens with an auxiliary loss."""
        if not find_auxiliary_weight(self._recipe.classification):
            return len(examples)
        return super().count_target_tokens(examples, epoch)

    def read(self, rows: Indices, epoch: int) -> tuple[Ragged, Indices]:
        """Returns texts and labels."""
        assert self._data.train_labels is not None, "labels"
        return self._data.train.gather(rows)["text"], self._data.train_labels[rows]

    def collate(self, examples: tuple[Ragged, Indices], lay_out: LayOut) -> ExampleBatch:
        """Returns texts as a batch, with `<s>` before each."""
        rows, labels = add_begin(examples[0]), examples[1]
        return collate_examples(rows, labels, lay_out(rows.lengths), closing=self._closing)

    def make_dummy(self, count: int, length: int) -> tuple[Ragged, Indices]:
        """Returns `count` texts that have this length with `<s>`."""
        rows = make_dummy_side(count, length - 1)
        rows.tokens[length - 2 :: length - 1] = EOS
        return rows, np.zeros(count, np.int64)
