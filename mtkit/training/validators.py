"""Validates networks on the development set: loss, scores, a few sample texts."""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.console import warn
from mtkit.data.batches.collate import (
    MaskedBatch,
    collate_joined,
    collate_masked,
    collate_text,
    lay_out,
    lay_out_side,
)
from mtkit.data.batches.examples import collate_together, find_closing
from mtkit.data.batches.masking import FIXED_WORDS, DenoisingReader, InfillingReader, TokenMasker
from mtkit.data.batches.ragged import Indices, Ragged
from mtkit.data.batches.segments import SegmentReader, Segments, check_segments
from mtkit.errors import MtkitError
from mtkit.evaluation.label_scores import compute_label_metrics as score_labels
from mtkit.evaluation.parseval import measure_trees
from mtkit.evaluation.scores import score_corpus
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.inference.engines.engine import AttendingEngine, EncodedSource, Engine
from mtkit.inference.engines.open_torch_engine import engine_of_network
from mtkit.inference.engines.torch_engine import evaluating
from mtkit.inference.learned_metric import open_metric
from mtkit.inference.parse import TreeMaker
from mtkit.inference.search.bounds import OutputBounds
from mtkit.inference.translation import Hypothesis
from mtkit.inference.translator import Translator
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, PaddedLayout
from mtkit.network.device import is_out_of_memory
from mtkit.recipe.inference import Inference
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import BOS, EOS
from mtkit.text.trees.brackets import write_tree
from mtkit.training.loss import (
    Classifier,
    TranslatingModel,
    measure_causal,
    measure_encoded,
    measure_joined,
    measure_label_loss,
    measure_translation,
    select_predicting,
)
from mtkit.training.validation import (
    ModelValidator,
    Network,
    Sample,
    list_losses,
    name_losses,
)
from mtkit.training.watchdog import Progress
from mtkit.units import spread_items

_SAMPLE_TOKENS = 40
"""Maximum tokens of a sample text."""


class TextValidator(ModelValidator[Network]):
    """Validates a network that learns from text in one language."""

    num_sums = 2

    def _measure(self, model: Network) -> tuple[dict[str, float], Sequence[Sample]]:
        sums = self._add_up(
            [self._lengths()], lambda rows: self._measure_rows(model, rows), count=self.num_sums
        )
        lines = spread_items(self._data.dev_text[0], self._settings.num_samples)
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
        """Returns a line, closed by `</s>`, and the model's output for it."""

    def _decode(self, **texts: list[int]) -> Sample:
        return {name: self._data.tokenizer.decode_target(each) for name, each in texts.items()}


class CausalValidator(TextValidator[CausalLanguageModel]):
    """Validates a causal language model."""

    def _measure_rows(self, model: CausalLanguageModel, rows: Indices) -> list[Tensor]:
        text = self._data.dev.gather(rows)["text"]
        batch = collate_text(text, lay_out_side(text.lengths, [len(rows)]))
        batch = batch.to(self._processes.device)
        return list_losses(measure_causal(model, batch, label_smoothing=self._label_smoothing))

    def _name_metrics(self, *sums: float) -> dict[str, float]:
        loss, nll = (value / self._data.dev.num_tokens["text"] for value in sums)
        # The end of a line is predicted too and counts as one character.
        num_characters = sum(len(line) + 1 for line in self._data.dev_text[0])
        return name_losses(loss, nll) | {
            "bits_per_character": sums[1] / math.log(2.0) / num_characters
        }

    def _sample(self, model: CausalLanguageModel, number: int, tokens: list[int]) -> Sample:
        """Returns a line, its first half, and the model's greedy continuation of that."""
        beginning = tokens[: min(len(tokens) // 2, _SAMPLE_TOKENS // 2)]
        device = self._processes.device
        limit = min(_SAMPLE_TOKENS, self._recipe.data.block_tokens)
        cache = model.start(1, device)
        step = partial(model.step, cache=cache)
        continued = _generate(step, [BOS, *beginning], limit, device)
        reference, continued = tokens[:_SAMPLE_TOKENS], [*beginning, *continued]
        return self._decode(beginning=beginning, reference=reference, continued=continued)


class MaskedValidator(TextValidator[MaskedLanguageModel]):
    """Validates a masked language model.

    Masked tokens and segments are the same at every validation and for every seed.
    """

    num_sums = 7

    def _prepare(self) -> None:
        data, masking = self._data, self._recipe.training.masked
        assert data.dev_documents is not None, "pairs"
        self._masker = TokenMasker.of(masking, data.tokenizer, words=FIXED_WORDS)
        if masking.next_sentence:
            check_segments(data.dev, data.dev_documents, "the development set")
        self._reader = SegmentReader(
            data.dev,
            data.dev_documents,
            words=FIXED_WORDS,
            max_tokens=self._recipe.data.block_tokens,
            next_sentence=masking.next_sentence,
        )

    def _name_metrics(self, *sums: float) -> dict[str, float]:
        loss, nll, num_masked, num_right, pair_loss, num_pairs, num_right_pairs = sums
        metrics = name_losses(loss / num_masked, nll / num_masked)
        metrics["masked_accuracy"] = 100.0 * num_right / num_masked
        if num_pairs:
            metrics["loss"] += pair_loss / num_pairs
            metrics["next_sentence_accuracy"] = 100.0 * num_right_pairs / num_pairs
        return metrics

    def _measure_rows(self, model: MaskedLanguageModel, rows: Indices) -> list[Tensor]:
        batch = self._collate(self._reader.read(rows, 0), rows)
        states = model(batch.inputs, batch.segments, batch.layout)
        measured = measure_encoded(model, states, batch, label_smoothing=self._label_smoothing)
        predicted = model.predict(select_predicting(states, batch)).argmax(dim=-1)
        num_right = (predicted == batch.outputs).sum()
        sums = [*list_losses(measured), torch.tensor(len(batch.outputs)), num_right]
        if batch.is_random is None or measured.example_loss is None:
            return [*sums, *torch.zeros(3)]
        answers = model.classify_pair(states, batch.layout).argmax(dim=-1)
        num_right_pairs = (answers == batch.is_random).sum()
        return [*sums, measured.example_loss, torch.tensor(len(rows)), num_right_pairs]

    def _collate(self, segments: Segments, rows: Indices) -> MaskedBatch:
        masked = self._masker.mask(segments, rows, 0)
        layout = lay_out_side(segments.tokens.lengths, [len(rows)])
        return collate_masked(segments, masked, layout).to(self._processes.device)

    def _sample(self, model: MaskedLanguageModel, number: int, tokens: list[int]) -> Sample:
        """Returns a line with masked tokens, and the model's predictions for them."""
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
        predicted = model.predict(select_predicting(states, batch)).argmax(dim=-1)
        filled = row.copy()
        filled[batch.indices.cpu().numpy()] = predicted.cpu().numpy()
        masked = batch.inputs[0].tolist()
        return self._decode(masked=masked, reference=row.tolist(), filled=filled.tolist())


class DenoisingValidator(TextValidator[EncoderDecoder]):
    """Validates a denoising model.

    Masked spans are the same at every validation and for every seed.
    """

    num_sums = 3

    def _prepare(self) -> None:
        self._reader: DenoisingReader = InfillingReader(
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
        """Returns a line, the line with masked spans, and the model's greedy output for that."""
        text = [*tokens[:-1][:_SAMPLE_TOKENS], EOS]
        masked = self._reader.corrupt(Ragged.of([text]), np.array([number]), 0)
        device = self._processes.device
        source = torch.from_numpy(masked.tokens)[None].to(device)
        cache = model.start(source, PaddedLayout.without_padding(source))
        limit = min(_SAMPLE_TOKENS, self._recipe.data.block_tokens - 1)
        filled = [BOS, *_generate(partial(model.step, cache=cache), [BOS], limit, device)]
        return self._decode(masked=masked.tokens.tolist(), reference=text, filled=filled)


def _generate(
    step: Callable[[Tensor], Tensor], given: Sequence[int], limit: int, device: torch.device
) -> list[int]:
    """Returns the greedy continuation of the given tokens, to `</s>` or `limit` steps."""
    generated: list[int] = []
    for position in range(limit):
        newest = given[position] if position < len(given) else generated[-1]
        logits = step(torch.tensor([[newest]], device=device))
        if position + 1 >= len(given):
            generated.append(int(logits.argmax()))
            if generated[-1] == EOS:
                break
    return generated


class LabelValidator(ModelValidator[Classifier]):
    """Validates a classifier: loss, accuracy, macro-F1."""

    def _prepare(self) -> None:
        self._closing = find_closing(self._data.tokenizer, self._recipe.classification.kind)

    def _measure(self, model: Classifier) -> tuple[dict[str, float], Sequence[Sample]]:
        data = self._data
        assert data.dev_labels is not None, "labels"
        # Labels found by other ranks stay 0 here and are added by the all-reduce.
        found = torch.zeros(len(data.dev), dtype=torch.float64)
        sums = self._add_up(
            [self._lengths() + 1], lambda rows: self._classify(model, rows, found), count=2
        )
        numbers = self._processes.sum(found.to(self._processes.device)).cpu().to(torch.int64)
        given = [data.labels[number] for number in numbers.tolist()]
        wanted = [data.labels[number] for number in data.dev_labels.tolist()]
        accuracy, macro_f1 = score_labels(given, wanted, data.labels)
        scores = {"accuracy": accuracy.value, "macro_f1": macro_f1.value}
        loss, nll = (value / len(data.dev) for value in sums)
        samples = self._sample_columns(text=data.dev_text[0], label=wanted, found=given)
        return name_losses(loss, nll) | scores, samples

    def _classify(self, model: Classifier, rows: Indices, found: Tensor) -> list[Tensor]:
        """Returns the losses of some texts, and writes their labels into `found`."""
        assert self._data.dev_labels is not None, "labels"
        tokens = self._data.dev.gather(rows)["text"]
        batch = collate_together(tokens, self._data.dev_labels[rows], self._closing)
        batch = batch.to(self._processes.device)
        _, logits = model.label(batch.inputs, batch.segments, batch.layout, batch.last)
        found[rows] = logits.argmax(dim=-1).to("cpu", torch.float64)
        smoothing = self._label_smoothing
        return list_losses(measure_label_loss(logits, batch.labels, label_smoothing=smoothing))


_MIN_BATCH_TOKENS = 64
_NUM_TIMED = 100
"""Sentences that an estimate translates."""


class TranslationValidator(ModelValidator[TranslatingModel]):
    """Validates a translator by the same code as `translate` and `score`.

    Outputs are bounded like the references: an untrained model doesn't know when to stop.
    """

    def _prepare(self) -> None:
        recipe = self._recipe
        self._sources, self._references = self._data.dev_text
        self._trees = TreeMaker.of(recipe.data.linearization, self._data.tokenizer)
        if self._trees is not None:
            pairs = zip(self._sources, self._references, strict=True)
            self._references = [write_tree(self._trees.read(*pair)) for pair in pairs]
        two = recipe.evaluation.model_copy(update={"metrics": ("bleu", "chrf")})
        self._evaluation = resolve_tokenizer(two, recipe.data.target_language)
        score_corpus(["a"], [["a"]], self._evaluation)
        folder = self._settings.learned
        device = str(self._processes.device)
        self._learned = None if folder is None else open_metric(folder, device=device)
        longest = max(map(len, self._data.tokenizer.encode_source(self._sources)))
        max_tokens = recipe.model.max_tokens
        if max_tokens is not None and longest > max_tokens:
            raise MtkitError(
                f"the development set has a source sentence of {longest:,} tokens, but with "
                f"model.max_positions = {recipe.model.max_positions:,} it has {max_tokens:,} at "
                "most",
                "remove it from the development set, or raise model.max_positions",
            )
        targets = self._data.dev.gather(np.arange(len(self._data.dev)))["target"]
        self._bounds = OutputBounds.measure(self._lengths("source").tolist(), targets.to_lists())

    def _measure(self, model: TranslatingModel) -> tuple[dict[str, float], Sequence[Sample]]:
        store, lengths = self._data.dev, [self._lengths("source"), self._lengths("target")]
        sums = self._add_up(lengths, lambda rows: self._measure_rows(model, rows), count=2)
        loss, nll = (value / store.num_tokens["target"] for value in sums)
        hypotheses = self._translate(model, self._sources)
        samples = self._sample_columns(
            source=self._sources, reference=self._references, hypothesis=hypotheses
        )
        return name_losses(loss, nll) | self._score(hypotheses), samples

    def estimate_seconds(self, model: TranslatingModel) -> float:
        """Returns the seconds that a validation takes, from a part of the sentences.

        Outputs are as long as the references: random weights would end at once, or never.
        """
        sources = spread_items(self._sources, _NUM_TIMED)
        num_tokens = self._data.dev.num_tokens["target"] // len(self._data.dev)
        began_at = time.monotonic()
        with evaluating([model]):
            self._translate(model, sources, min_length=num_tokens, max_output_tokens=num_tokens + 1)
        return (time.monotonic() - began_at) * len(self._sources) / len(sources)

    def _measure_rows(self, model: TranslatingModel, rows: Indices) -> list[Tensor]:
        tokens, device = self._data.dev.gather(rows), self._processes.device
        source, target, sizes = tokens["source"], tokens["target"], [len(rows)]
        smoothing = self._label_smoothing
        if isinstance(model, EncoderDecoder):
            pairs = lay_out(source, target, sizes).to(device)
            return list_losses(measure_translation(model, pairs, label_smoothing=smoothing))
        layout = lay_out_side(source.lengths + target.lengths, sizes)
        joined = collate_joined(source, target, layout).to(device)
        return list_losses(measure_joined(model, joined, label_smoothing=smoothing))

    def _score(self, hypotheses: Sequence[str]) -> dict[str, float]:
        """Returns the scores of translations, or of trees, by name."""
        if self._trees is None:
            bleu, chrf = score_corpus(hypotheses, [self._references], self._evaluation)
            return {"bleu": bleu.value, "chrf": chrf.value} | self._score_learned(hypotheses)
        found = {each.name: each.value for each in measure_trees(hypotheses, self._references)}
        return {"f1": found["labelled F1"], "exact_match": found["exact match"]}

    def _score_learned(self, hypotheses: Sequence[str]) -> dict[str, float]:
        """Returns the mean of a learned metric's sentence scores, times 100, over all ranks."""
        if self._learned is None:
            return {}
        rows = list(zip(self._sources, hypotheses, self._references, strict=True))
        beat = self._processes.progress.beat
        scores = self._learned.score(self._processes.shard(rows), on_batch=beat)
        total = torch.tensor([scores.sum()], device=self._processes.device)
        return {"comet": 100.0 * float(self._processes.sum(total)) / len(rows)}

    def _translate(
        self, model: TranslatingModel, sources: Sequence[str], **changes: int
    ) -> list[str]:
        is_narrow = next(model.parameters()).dtype == torch.bfloat16
        plain = {"engine": "auto", "precision": "bf16" if is_narrow else "fp32", "n_best": 1}
        without = dict.fromkeys(("sampling", "rerank", "fusion", "flags", "glossary", "quality"))
        settings = self._recipe.inference.model_copy(
            update=plain | without | {"beam_size": self._settings.beam_size} | changes
        )
        engine = _HeartbeatEngine(
            engine_of_network(model, settings, self._processes.device, bounds=self._bounds),
            self._processes.progress,
        )
        while True:
            translator = Translator.of(
                engine,
                self._data.tokenizer,
                settings,
                source_language=self._recipe.data.source_language,
                target_language=self._recipe.data.target_language,
                warns=False,
                linearization=self._recipe.data.linearization,
            )
            try:
                part = list(translator.stream(self._processes.shard(sources)))
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or settings.batch_tokens < _MIN_BATCH_TOKENS:
                    raise
            smaller = settings.batch_tokens // 2
            warn(f"out of memory in validation: retrying with {smaller:,} tokens at a time")
            settings = settings.model_copy(update={"batch_tokens": smaller})
        return self._processes.gather(part)


class _HeartbeatEngine:
    """An engine that reports this rank's progress to the watchdog before each batch."""

    def __init__(self, engine: Engine, progress: Progress) -> None:
        self._engine, self._progress = engine, progress
        self.max_tokens = engine.max_tokens
        # So that a rank at work is never silent for long.
        self.batches_at_once = 1

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        self._progress.beat()
        return self._engine.search(sources, settings)

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        return self._engine.score(source_batch, target_batch)

    def attend(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]] | None:
        assert isinstance(self._engine, AttendingEngine), "both are"
        return self._engine.attend(source, targets)
