"""Loss and score on the development set, on the same path that `translate` and `score` take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from mtkit.console import warn
from mtkit.data.batches.micro_batches import cut
from mtkit.data.prepared import PreparedData
from mtkit.errors import MtkitError
from mtkit.evaluation.parseval import measure_trees
from mtkit.evaluation.scores import score_corpus
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.engines.parallel_engine import open_processes
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.parse import TreeMaker
from mtkit.inference.translate import Translator
from mtkit.inference.translation import Hypothesis
from mtkit.network import CausalLanguageModel, EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.recipe.inference import Inference
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import select
from mtkit.text.trees.brackets import write_tree
from mtkit.training.distributed import Processes
from mtkit.training.memory import is_out_of_memory
from mtkit.training.metrics import LOSSES
from mtkit.training.translation_loss import measure_pairs

LOSS_TOKENS = 4_096
"""Tokens a side, without padding, in one pass; validation keeps nothing for a backward pass."""
_MIN_BATCH_TOKENS = 64
_MAX_NLL = 700.0
"""The exponential of more isn't finite."""

Network_contra = TypeVar("Network_contra", contravariant=True)


@dataclass(frozen=True)
class SampleTranslation:
    """A development sentence with its translations."""

    source: str
    reference: str
    hypothesis: str

    @property
    def lines(self) -> dict[str, str]:
        """Its texts, each under a name of ten letters at most."""
        return {
            "source": self.source,
            "reference": self.reference,
            "hypothesis": self.hypothesis,
        }


@dataclass(frozen=True)
class SampleText:
    """What a language model makes of a development sentence.

    Attributes:
        lines: Its texts, each under a name of ten letters at most.
    """

    lines: dict[str, str]


@dataclass(frozen=True)
class ValidationResult:
    """Loss and scores on the development set.

    Attributes:
        score: What ranks checkpoints; greater is better.
        metrics: `loss` and `nll` in nats per target token, `perplexity`, and any number of scores,
            which are `bleu` and `chrf` for a translator, `f1` and `exact_match` for a parser, and
            shares of right answers in percent for a masked language model.
        samples: A few sentences to read.
    """

    score: float
    metrics: dict[str, float]
    samples: Sequence[SampleTranslation | SampleText]

    @property
    def scores(self) -> dict[str, float]:
        """The metrics that are scores."""
        return {name: value for name, value in self.metrics.items() if name not in LOSSES}


class ModelValidator(Protocol[Network_contra]):
    """Measures networks of one kind on the development set."""

    def validate(self, model: Network_contra) -> ValidationResult:
        """Returns a network's loss and scores; every process must call it."""
        ...


def list_score_settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a model's score depends on besides its weights and the data.

    Args:
        recipe: A recipe as plain tables, as a checkpoint has it.
    """
    chosen = select(recipe, Invalidates.SCORES)
    training = chosen.pop("training")
    return {**training.pop("validation"), **training, **chosen}


def perplexity_of(nll: float) -> float:
    """Returns the perplexity of a mean negative log-likelihood in nats."""
    return math.exp(nll) if nll < _MAX_NLL else math.inf


class Validator:
    """Measures a translator on the development set, whose sentences the processes share.

    With `forks`, forks of this process translate, as with `mtkit translate`: for one that has no
    other thread at work.

    Raises:
        MtkitError: A tokeniser for scores that isn't installed, or a sentence that the model's
            learned positions don't reach.
    """

    def __init__(
        self, recipe: Recipe, data: PreparedData, processes: Processes, *, forks: bool = False
    ) -> None:
        self._recipe = recipe
        self._tokenizer = data.tokenizer
        self._store = data.dev
        self._sources, self._references = data.dev_text
        self._processes = processes
        self._forks = forks
        self._trees = TreeMaker.of(recipe.data.linearization, data.tokenizer)
        if self._trees is not None:
            pairs = zip(self._sources, self._references, strict=True)
            self._references = [write_tree(self._trees.read(*pair)) for pair in pairs]
        two = recipe.evaluation.model_copy(update={"metrics": ("bleu", "chrf")})
        self._settings = resolve_tokenizer(two, recipe.data.target_language)
        # Before the first update, not after hours: what would fail at the first validation.
        score_corpus(["a"], [["a"]], self._settings)
        longest = max(map(len, self._tokenizer.encode_source(self._sources)))
        max_tokens = recipe.model.max_tokens
        if max_tokens is not None and longest > max_tokens:
            raise MtkitError(
                f"the development set has a source sentence of {longest:,} tokens, but with "
                f"model.max_positions = {recipe.model.max_positions:,} it has {max_tokens:,} at "
                "most",
                "remove it from the development set, or raise model.max_positions",
            )

    def validate(self, model: EncoderDecoder | CausalLanguageModel) -> ValidationResult:
        """Returns the model's loss and scores; every process must call it."""
        loss, nll = self._measure_loss(model)
        hypotheses = self._translate(model)
        metrics: dict[str, float] = {
            "loss": loss,
            "nll": nll,
            "perplexity": perplexity_of(nll),
            **self._score(hypotheses),
        }
        metric = self._recipe.training.validation.metric
        return ValidationResult(
            score=-metrics["loss"] if metric == "loss" else metrics[metric],
            metrics=metrics,
            samples=self._choose_samples(hypotheses),
        )

    def _score(self, hypotheses: Sequence[str]) -> dict[str, float]:
        """Returns the scores of translations, or of trees, by their names."""
        if self._trees is None:
            bleu, chrf = score_corpus(hypotheses, [self._references], self._settings)
            return {"bleu": bleu.value, "chrf": chrf.value}
        found = {each.name: each.value for each in measure_trees(hypotheses, self._references)}
        return {"f1": found["labelled F1"], "exact_match": found["exact match"]}

    def _measure_loss(self, model: EncoderDecoder | CausalLanguageModel) -> tuple[float, float]:
        """Returns loss and negative log-likelihood per target token."""
        store, training = self._store, self._recipe.training
        lengths = store.lengths(np.arange(len(store)))
        source_lengths, target_lengths = lengths["source"], lengths["target"]
        order = np.lexsort((source_lengths, target_lengths))
        batches = cut(order, source_lengths, target_lengths, max_tokens=LOSS_TOKENS)
        sums = torch.zeros(2, dtype=torch.float64)
        was_training = model.training
        model.eval()
        with torch.no_grad():
            for sentences in self._processes.shard(batches):
                self._processes.progress.beat()
                tokens = store.gather(sentences)
                measured = measure_pairs(
                    model,
                    tokens["source"],
                    tokens["target"],
                    device=self._processes.device,
                    label_smoothing=training.label_smoothing,
                )
                sums += torch.stack(measured[:2]).cpu()
        model.train(was_training)
        totals = self._processes.sum(sums.to(self._processes.device)).tolist()
        num_tokens = store.num_tokens["target"]
        return totals[0] / num_tokens, totals[1] / num_tokens

    def _translate(self, model: EncoderDecoder | CausalLanguageModel) -> list[str]:
        beam_size = self._recipe.training.validation.beam_size
        settings = self._recipe.inference.model_copy(
            update={
                "engine": "torch",
                "beam_size": beam_size,
                "n_best": 1,
                "sampling": None,
                "fusion": None,
                "flags": None,
                "glossary": None,
            }
        )
        engine: Engine = _BeatingEngine(model, self._processes)
        if self._forks:
            engine = open_processes(engine, self._processes.device, settings.processes)
        while True:
            translator = Translator.of(
                engine,
                self._tokenizer,
                settings,
                source_language=self._recipe.data.source_language,
                target_language=self._recipe.data.target_language,
                warns=False,
                linearization=self._recipe.data.linearization,
            )
            try:
                part = list(translator.stream(self._processes.shard(self._sources)))
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or settings.batch_tokens < _MIN_BATCH_TOKENS:
                    raise
            smaller = settings.batch_tokens // 2
            warn(f"out of memory in validation: retrying with {smaller:,} tokens at a time")
            settings = settings.model_copy(update={"batch_tokens": smaller})
        return self._processes.gather(part)

    def _choose_samples(self, hypotheses: list[str]) -> list[SampleTranslation]:
        """Returns sentences spread evenly over the set, the same at every validation."""
        count = min(self._recipe.training.validation.num_samples, len(hypotheses))
        indices = [number * len(hypotheses) // count for number in range(count)]
        return [
            SampleTranslation(self._sources[index], self._references[index], hypotheses[index])
            for index in indices
        ]


class _BeatingEngine(TorchEngine):
    """An engine that shows the other processes, before each batch, that this one is at work."""

    def __init__(self, model: EncoderDecoder | CausalLanguageModel, processes: Processes) -> None:
        super().__init__(model, processes.device)
        self._progress = processes.progress

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        self._progress.beat()
        return super().search(sources, settings)
