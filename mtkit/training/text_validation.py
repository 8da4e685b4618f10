"""Language models on the development set: loss, perplexity, accuracy; a few texts to read."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import (
    MaskedBatch,
    collate_masked,
    collate_text,
    lay_out,
    lay_out_side,
)
from mtkit.data.batches.infilling import InfillingReader
from mtkit.data.batches.masking import FIXED_WORDS, TokenMasker
from mtkit.data.batches.micro_batches import cut
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.segments import SegmentReader, Segments, check_pairs
from mtkit.data.batches.token_store import TokenStore
from mtkit.data.prepared import PreparedData
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, PaddedLayout
from mtkit.recipe import Recipe
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import BOS, EOS
from mtkit.training.distributed import Processes
from mtkit.training.text_loss import measure_causal, measure_encoded, select_hidden
from mtkit.training.translation_loss import measure_translation
from mtkit.training.validation import LOSS_TOKENS, SampleText, ValidationResult, perplexity_of

Item = TypeVar("Item")
_SAMPLE_TOKENS = 40
"""Tokens of a text that is shown, at most."""


class CausalValidator:
    """Measures a causal language model; blocks are shared out among the processes."""

    def __init__(self, recipe: Recipe, data: PreparedData, processes: Processes) -> None:
        self._recipe = recipe
        self._tokenizer = data.tokenizer
        self._store = data.dev
        self._lines, _ = data.dev_text
        self._processes = processes

    def validate(self, model: CausalLanguageModel) -> ValidationResult:
        """Returns the model's loss; every process must call it."""
        with inferring(model):
            sums = _add_up(
                self._store, self._processes, lambda rows: self._measure(model, rows), count=2
            )
            samples = [self._continue(model, line) for line in self._choose_lines()]
        num_tokens = self._store.num_tokens["text"]
        loss, nll = (value / num_tokens for value in sums)
        # The end of a line, which is predicted too, counts as one character.
        num_characters = sum(len(line) + 1 for line in self._lines)
        metrics = {
            "loss": loss,
            "nll": nll,
            "perplexity": perplexity_of(nll),
            "bits_per_character": sums[1] / math.log(2.0) / num_characters,
        }
        return ValidationResult(-loss, metrics, samples)

    def _measure(self, model: CausalLanguageModel, rows: Indices) -> list[Tensor]:
        text = self._store.gather(rows)["text"]
        batch = collate_text(text, lay_out_side(text.lengths, [len(rows)]))
        measured = measure_causal(
            model,
            batch.to(self._processes.device),
            label_smoothing=self._recipe.training.label_smoothing,
        )
        return [measured.loss, measured.negative_log_likelihood]

    def _choose_lines(self) -> list[str]:
        return spread(self._lines, self._recipe.training.validation.num_samples)

    def _continue(self, model: CausalLanguageModel, line: str) -> SampleText:
        """Returns a line, its first half, and what the model makes of that, greedily."""
        [tokens] = self._tokenizer.encode_target([line])
        beginning = tokens[: min(len(tokens) // 2, _SAMPLE_TOKENS // 2)]
        device = self._processes.device
        cache = model.start(1, device)
        continued: list[int] = []
        limit = min(_SAMPLE_TOKENS, self._recipe.data.block_tokens)
        for position in range(limit):
            given = [BOS, *beginning]
            newest = given[position] if position < len(given) else continued[-1]
            logits = model.step(torch.tensor([[newest]], device=device), cache)
            if position >= len(beginning):
                continued.append(int(logits.argmax()))
                if continued[-1] == EOS:
                    break
        decode = self._tokenizer.decode_target
        return SampleText(
            {
                "beginning": decode(beginning),
                "reference": decode(tokens[:_SAMPLE_TOKENS]),
                "continued": decode([*beginning, *continued]),
            }
        )


class MaskedValidator:
    """Measures a masked language model; blocks are shared out among the processes.

    Which tokens are hidden and which segments are drawn is the same at every validation and for
    every seed.

    Raises:
        MtkitError: The development set has no pairs of segments, which the recipe wants.
    """

    def __init__(self, recipe: Recipe, data: PreparedData, processes: Processes) -> None:
        assert data.dev_documents is not None, "pairs"
        masking = recipe.training.masked
        self._recipe = recipe
        self._tokenizer = data.tokenizer
        self._store = data.dev
        self._lines, _ = data.dev_text
        self._processes = processes
        self._masker = TokenMasker.of(masking, data.tokenizer, words=FIXED_WORDS)
        if masking.next_sentence:
            check_pairs(data.dev, data.dev_documents, "the development set")
        self._reader = SegmentReader(
            data.dev,
            data.dev_documents,
            words=FIXED_WORDS,
            max_tokens=recipe.data.block_tokens,
            next_sentence=masking.next_sentence,
        )

    def validate(self, model: MaskedLanguageModel) -> ValidationResult:
        """Returns the model's loss and accuracies; every process must call it."""
        with inferring(model):
            sums = _add_up(
                self._store, self._processes, lambda rows: self._measure(model, rows), count=7
            )
            samples = self._fill_samples(model)
        loss, nll, num_hidden, num_right, pair_loss, num_pairs, num_right_pairs = sums
        metrics = {
            "loss": loss / num_hidden,
            "nll": nll / num_hidden,
            "perplexity": perplexity_of(nll / num_hidden),
            "masked_accuracy": 100.0 * num_right / num_hidden,
        }
        if num_pairs:
            metrics["loss"] += pair_loss / num_pairs
            metrics["next_sentence_accuracy"] = 100.0 * num_right_pairs / num_pairs
        return ValidationResult(-metrics["loss"], metrics, samples)

    def _measure(self, model: MaskedLanguageModel, rows: Indices) -> list[Tensor]:
        batch = self._collate(self._reader.read(rows, 0), rows)
        states = model(batch.inputs, batch.segments, batch.layout)
        smoothing = self._recipe.training.label_smoothing
        measured = measure_encoded(model, states, batch, label_smoothing=smoothing)
        predicted = model.predict(select_hidden(states, batch)).argmax(dim=-1)
        num_right = (predicted == batch.outputs).sum()
        nothing = torch.zeros(())
        sums = [measured.loss, measured.negative_log_likelihood]
        sums += [torch.tensor(len(batch.outputs)), num_right]
        if batch.is_random is None or measured.example_loss is None:
            return [*sums, nothing, nothing, nothing]
        answers = model.classify_pair(states, batch.layout).argmax(dim=-1)
        num_right_pairs = (answers == batch.is_random).sum()
        return [*sums, measured.example_loss, torch.tensor(len(rows)), num_right_pairs]

    def _collate(self, segments: Segments, rows: Indices) -> MaskedBatch:
        hidden = self._masker.hide(segments, rows, 0)
        layout = lay_out_side(segments.tokens.lengths, [len(rows)])
        return collate_masked(segments, hidden, layout).to(self._processes.device)

    def _fill_samples(self, model: MaskedLanguageModel) -> list[SampleText]:
        """Returns lines with hidden tokens, and what the model puts in their place."""
        lines = spread(self._lines, self._recipe.training.validation.num_samples)
        return [
            self._fill(model, number, tokens[:-1][:_SAMPLE_TOKENS])
            for number, tokens in enumerate(self._tokenizer.encode_source(lines))
        ]

    def _fill(self, model: MaskedLanguageModel, number: int, text: list[int]) -> SampleText:
        tokens = np.array([BOS, *text, EOS])
        segments = Segments(
            Ragged(tokens, np.array([len(tokens)])),
            np.zeros_like(tokens),
            np.arange(1, len(tokens) - 1),
            np.array([len(text)]),
            None,
        )
        batch = self._collate(segments, np.array([number]))
        states = model(batch.inputs, batch.segments, batch.layout)
        predicted = model.predict(select_hidden(states, batch)).argmax(dim=-1)
        filled = tokens.copy()
        filled[batch.indices.cpu().numpy()] = predicted.cpu().numpy()
        decode = self._tokenizer.decode_target
        return SampleText(
            {
                "hidden": decode(batch.inputs[0].tolist()),
                "reference": decode(tokens.tolist()),
                "filled": decode(filled.tolist()),
            }
        )


class DenoisingValidator:
    """Measures a denoising model on the development set, whose blocks the processes share.

    Which spans are hidden is the same at every validation and for every seed.
    """

    def __init__(self, recipe: Recipe, data: PreparedData, processes: Processes) -> None:
        self._recipe = recipe
        self._tokenizer = data.tokenizer
        self._store = data.dev
        self._lines, _ = data.dev_text
        self._processes = processes
        self._reader = InfillingReader(
            data.dev,
            recipe.training.denoising or Denoising(),
            mask_token=data.tokenizer.mask_token,
            words=FIXED_WORDS,
        )

    def validate(self, model: EncoderDecoder) -> ValidationResult:
        """Returns the loss of the text, given it with hidden spans; every process must call it."""
        with inferring(model):
            sums = _add_up(
                self._store, self._processes, lambda rows: self._measure(model, rows), count=3
            )
            lines = spread(self._lines, self._recipe.training.validation.num_samples)
            encoded = enumerate(self._tokenizer.encode_source(lines))
            samples = [self._fill(model, number, tokens) for number, tokens in encoded]
        loss, nll = sums[0] / sums[2], sums[1] / sums[2]
        metrics = {"loss": loss, "nll": nll, "perplexity": perplexity_of(nll)}
        return ValidationResult(-loss, metrics, samples)

    def _measure(self, model: EncoderDecoder, rows: Indices) -> list[Tensor]:
        texts = self._reader.read(rows, 0)
        batch = lay_out(texts.source, texts.target, [len(rows)])
        measured = measure_translation(
            model,
            batch.to(self._processes.device),
            label_smoothing=self._recipe.training.label_smoothing,
        )
        num_tokens = torch.tensor(len(texts.target.tokens))
        return [measured.loss, measured.negative_log_likelihood, num_tokens]

    def _fill(self, model: EncoderDecoder, number: int, tokens: list[int]) -> SampleText:
        """Returns a line, it with hidden spans, and what the model makes of that, greedily."""
        text = [*tokens[:-1][:_SAMPLE_TOKENS], EOS]
        hidden = self._reader.corrupt(Ragged.of([text]), np.array([number]), 0)
        device = self._processes.device
        source = torch.from_numpy(hidden.tokens)[None].to(device)
        cache = model.start(source, PaddedLayout.without_padding(source))
        filled = [BOS]
        while len(filled) <= min(_SAMPLE_TOKENS, self._recipe.data.block_tokens - 1):
            logits = model.step(torch.tensor([[filled[-1]]], device=device), cache)
            filled.append(int(logits.argmax()))
            if filled[-1] == EOS:
                break
        decode = self._tokenizer.decode_target
        return SampleText(
            {
                "hidden": decode(hidden.tokens.tolist()),
                "reference": decode(text),
                "filled": decode(filled),
            }
        )


@contextmanager
def inferring(model: nn.Module) -> Iterator[None]:
    """Lets a network infer while the block runs, without dropout and gradients."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def _add_up(
    store: TokenStore,
    processes: Processes,
    measure: Callable[[Indices], Sequence[Tensor]],
    *,
    count: int,
) -> list[float]:
    """Returns the sums of what is measured of all rows, a few at a time, in all processes.

    Args:
        store: Blocks of text.
        processes: Who takes part.
        measure: Returns `count` numbers of some rows.
        count: How many.
    """
    rows = np.arange(len(store))
    lengths = store.lengths(rows)["text"]
    order = np.argsort(lengths, kind="stable")
    batches = cut(order, np.zeros_like(lengths), lengths, max_tokens=LOSS_TOKENS)
    sums = torch.zeros(count, dtype=torch.float64)
    for batch in processes.shard(batches):
        processes.progress.beat()
        sums += torch.stack([value.to("cpu", torch.float64) for value in measure(batch)])
    totals: list[float] = processes.sum(sums.to(processes.device)).tolist()
    return totals


def spread(lines: Sequence[Item], count: int) -> list[Item]:
    """Returns items spread evenly over all, the same at every validation."""
    count = min(count, len(lines))
    return [lines[number * len(lines) // count] for number in range(count)]
