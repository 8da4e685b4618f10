"""Translators on the development set, on the same path that `translate` and `score` take."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from mtkit.console import warn
from mtkit.data.batches.ragged import Ragged
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
from mtkit.recipe.inference import Inference
from mtkit.text.trees.brackets import write_tree
from mtkit.training.distributed import Processes
from mtkit.training.memory import is_out_of_memory
from mtkit.training.translation_loss import measure_pairs
from mtkit.training.validation import ModelValidator, Sample, list_losses, name_losses, spread

_MIN_BATCH_TOKENS = 64


class TranslationValidator(ModelValidator[EncoderDecoder | CausalLanguageModel]):
    """Measures a translator.

    Raises:
        MtkitError: A tokeniser for scores that isn't installed, or a sentence that the model's
            learned positions don't reach.
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
        longest = max(map(len, self._data.tokenizer.encode_source(self._sources)))
        max_tokens = recipe.model.max_tokens
        if max_tokens is not None and longest > max_tokens:
            raise MtkitError(
                f"the development set has a source sentence of {longest:,} tokens, but with "
                f"model.max_positions = {recipe.model.max_positions:,} it has {max_tokens:,} at "
                "most",
                "remove it from the development set, or raise model.max_positions",
            )

    def _measure(
        self, model: EncoderDecoder | CausalLanguageModel
    ) -> tuple[dict[str, float], Sequence[Sample]]:
        store = self._data.dev
        sums = self._add_up(
            [self._lengths("source"), self._lengths("target")],
            lambda rows: self._measure_loss(model, store.gather(rows)),
            count=2,
        )
        loss, nll = (value / store.num_tokens["target"] for value in sums)
        hypotheses = self._translate(model)
        texts = list(zip(self._sources, self._references, hypotheses, strict=True))
        samples = [
            dict(zip(("source", "reference", "hypothesis"), each, strict=True))
            for each in spread(texts, self._settings.num_samples)
        ]
        return name_losses(loss, nll) | self._score(hypotheses), samples

    def _measure_loss(
        self, model: EncoderDecoder | CausalLanguageModel, tokens: Mapping[str, Ragged]
    ) -> list[Tensor]:
        return list_losses(
            measure_pairs(
                model,
                tokens["source"],
                tokens["target"],
                device=self._processes.device,
                label_smoothing=self._label_smoothing,
            )
        )

    def _score(self, hypotheses: Sequence[str]) -> dict[str, float]:
        """Returns the scores of translations, or of trees, by their names."""
        if self._trees is None:
            bleu, chrf = score_corpus(hypotheses, [self._references], self._evaluation)
            return {"bleu": bleu.value, "chrf": chrf.value}
        found = {each.name: each.value for each in measure_trees(hypotheses, self._references)}
        return {"f1": found["labelled F1"], "exact_match": found["exact match"]}

    def _translate(self, model: EncoderDecoder | CausalLanguageModel) -> list[str]:
        beam_size = self._settings.beam_size
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
                self._data.tokenizer,
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
