"""Language models on the development set: loss, perplexity, accuracy; a few texts to read."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mtkit.data.batches.collate import (
    MaskedBatch,
    collate_masked,
    collate_text,
    lay_out,
    lay_out_side,
)
from mtkit.data.batches.infilling import InfillingReader
from mtkit.data.batches.masking import FIXED_WORDS, TokenMasker
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.segments import SegmentReader, Segments, check_pairs
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, PaddedLayout
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import BOS, EOS
from mtkit.training.text_loss import measure_causal, measure_encoded, select_hidden
from mtkit.training.translation_loss import measure_translation
from mtkit.training.validation import (
    ModelValidator,
    Network,
    Sample,
    list_losses,
    name_losses,
    spread,
)

_SAMPLE_TOKENS = 40
"""Tokens of a text that is shown, at most."""


class TextValidator(ModelValidator[Network]):
    """Measures a network that learns from text in one language."""

    num_sums = 2

    def _measure(self, model: Network) -> tuple[dict[str, float], Sequence[Sample]]:
        sums = self._add_up(
            [self._lengths()], lambda rows: self._measure_rows(model, rows), count=self.num_sums
        )
        lines = spread(self._data.dev_text[0], self._settings.num_samples)
        encoded = enumerate(self._data.tokenizer.encode_source(lines))
        samples = [self._sample(model, number, tokens) for number, tokens in encoded]
        return self._name_metrics(*sums), samples

    @abstractmethod
    def _measure_rows(self, model: Network, rows: Indices) -> Sequence[Tensor]:
        """Returns `num_sums` sums over some rows."""

    @abstractmethod
    def _name_metrics(self, *sums: float) -> dict[str, float]:
        """Returns metrics from the sums over all rows."""

    @abstractmethod
    def _sample(self, model: Network, number: int, tokens: list[int]) -> Sample:
        """Returns a line, closed by `</s>`, and what the model makes of it."""


class CausalValidator(TextValidator[CausalLanguageModel]):
    """Measures a causal language model."""

    def _measure_rows(self, model: CausalLanguageModel, rows: Indices) -> list[Tensor]:
        text = self._data.dev.gather(rows)["text"]
        batch = collate_text(text, lay_out_side(text.lengths, [len(rows)]))
        batch = batch.to(self._processes.device)
        return list_losses(measure_causal(model, batch, label_smoothing=self._label_smoothing))

    def _name_metrics(self, *sums: float) -> dict[str, float]:
        loss, nll = (value / self._data.dev.num_tokens["text"] for value in sums)
        # The end of a line, which is predicted too, counts as one character.
        num_characters = sum(len(line) + 1 for line in self._data.dev_text[0])
        return name_losses(loss, nll) | {
            "bits_per_character": sums[1] / math.log(2.0) / num_characters
        }

    def _sample(self, model: CausalLanguageModel, number: int, tokens: list[int]) -> Sample:
        """Returns a line, its first half, and what the model makes of that, greedily."""
        beginning = tokens[: min(len(tokens) // 2, _SAMPLE_TOKENS // 2)]
        device = self._processes.device
        limit = min(_SAMPLE_TOKENS, self._recipe.data.block_tokens)
        cache = model.start(1, device)
        step = partial(model.step, cache=cache)
        continued = _generate(step, [BOS, *beginning], limit, device)
        decode = self._data.tokenizer.decode_target
        return {
            "beginning": decode(beginning),
            "reference": decode(tokens[:_SAMPLE_TOKENS]),
            "continued": decode([*beginning, *continued]),
        }


class MaskedValidator(TextValidator[MaskedLanguageModel]):
    """Measures a masked language model.

    Which tokens are hidden and which segments are drawn is the same at every validation and for
    every seed.

    Raises:
        MtkitError: The development set has no pairs of segments, which the recipe wants.
    """

    num_sums = 7

    def _prepare(self) -> None:
        data, masking = self._data, self._recipe.training.masked
        assert data.dev_documents is not None, "pairs"
        self._masker = TokenMasker.of(masking, data.tokenizer, words=FIXED_WORDS)
        if masking.next_sentence:
            check_pairs(data.dev, data.dev_documents, "the development set")
        self._reader = SegmentReader(
            data.dev,
            data.dev_documents,
            words=FIXED_WORDS,
            max_tokens=self._recipe.data.block_tokens,
            next_sentence=masking.next_sentence,
        )

    def _name_metrics(self, *sums: float) -> dict[str, float]:
        loss, nll, num_hidden, num_right, pair_loss, num_pairs, num_right_pairs = sums
        metrics = name_losses(loss / num_hidden, nll / num_hidden)
        metrics["masked_accuracy"] = 100.0 * num_right / num_hidden
        if num_pairs:
            metrics["loss"] += pair_loss / num_pairs
            metrics["next_sentence_accuracy"] = 100.0 * num_right_pairs / num_pairs
        return metrics

    def _measure_rows(self, model: MaskedLanguageModel, rows: Indices) -> list[Tensor]:
        batch = self._collate(self._reader.read(rows, 0), rows)
        states = model(batch.inputs, batch.segments, batch.layout)
        measured = measure_encoded(model, states, batch, label_smoothing=self._label_smoothing)
        predicted = model.predict(select_hidden(states, batch)).argmax(dim=-1)
        num_right = (predicted == batch.outputs).sum()
        sums = [*list_losses(measured), torch.tensor(len(batch.outputs)), num_right]
        if batch.is_random is None or measured.example_loss is None:
            return [*sums, *torch.zeros(3)]
        answers = model.classify_pair(states, batch.layout).argmax(dim=-1)
        num_right_pairs = (answers == batch.is_random).sum()
        return [*sums, measured.example_loss, torch.tensor(len(rows)), num_right_pairs]

    def _collate(self, segments: Segments, rows: Indices) -> MaskedBatch:
        hidden = self._masker.hide(segments, rows, 0)
        layout = lay_out_side(segments.tokens.lengths, [len(rows)])
        return collate_masked(segments, hidden, layout).to(self._processes.device)

    def _sample(self, model: MaskedLanguageModel, number: int, tokens: list[int]) -> Sample:
        """Returns a line with hidden tokens, and what the model puts in their place."""
        text = tokens[:-1][:_SAMPLE_TOKENS]
        row = np.array([BOS, *text, EOS])
        segments = Segments(
            Ragged(row, np.array([len(row)])),
            np.zeros_like(row),
            np.arange(1, len(row) - 1),
            np.array([len(text)]),
            None,
        )
        batch = self._collate(segments, np.array([number]))
        states = model(batch.inputs, batch.segments, batch.layout)
        predicted = model.predict(select_hidden(states, batch)).argmax(dim=-1)
        filled = row.copy()
        filled[batch.indices.cpu().numpy()] = predicted.cpu().numpy()
        decode = self._data.tokenizer.decode_target
        return {
            "hidden": decode(batch.inputs[0].tolist()),
            "reference": decode(row.tolist()),
            "filled": decode(filled.tolist()),
        }


class DenoisingValidator(TextValidator[EncoderDecoder]):
    """Measures a denoising model.

    Which spans are hidden is the same at every validation and for every seed.
    """

    num_sums = 3

    def _prepare(self) -> None:
        self._reader = InfillingReader(
            self._data.dev,
            self._recipe.training.denoising or Denoising(),
            mask_token=self._data.tokenizer.mask_token,
            words=FIXED_WORDS,
        )

    def _name_metrics(self, *sums: float) -> dict[str, float]:
        loss, nll, num_tokens = sums
        return name_losses(loss / num_tokens, nll / num_tokens)

    def _measure_rows(self, model: EncoderDecoder, rows: Indices) -> list[Tensor]:
        texts = self._reader.read(rows, 0)
        batch = lay_out(texts.source, texts.target, [len(rows)]).to(self._processes.device)
        measured = measure_translation(model, batch, label_smoothing=self._label_smoothing)
        return [*list_losses(measured), torch.tensor(len(texts.target.tokens))]

    def _sample(self, model: EncoderDecoder, number: int, tokens: list[int]) -> Sample:
        """Returns a line, it with hidden spans, and what the model makes of that, greedily."""
        text = [*tokens[:-1][:_SAMPLE_TOKENS], EOS]
        hidden = self._reader.corrupt(Ragged.of([text]), np.array([number]), 0)
        device = self._processes.device
        source = torch.from_numpy(hidden.tokens)[None].to(device)
        cache = model.start(source, PaddedLayout.without_padding(source))
        limit = min(_SAMPLE_TOKENS, self._recipe.data.block_tokens - 1)
        filled = [BOS, *_generate(partial(model.step, cache=cache), [BOS], limit, device)]
        decode = self._data.tokenizer.decode_target
        return {
            "hidden": decode(hidden.tokens.tolist()),
            "reference": decode(text),
            "filled": decode(filled),
        }


def _generate(
    step: Callable[[Tensor], Tensor], given: Sequence[int], limit: int, device: torch.device
) -> list[int]:
    """Returns what follows the tokens that are given, greedily, up to `</s>` or so many steps."""
    generated: list[int] = []
    for position in range(limit):
        newest = given[position] if position < len(given) else generated[-1]
        logits = step(torch.tensor([[newest]], device=device))
        if position + 1 >= len(given):
            generated.append(int(logits.argmax()))
            if generated[-1] == EOS:
                break
    return generated
