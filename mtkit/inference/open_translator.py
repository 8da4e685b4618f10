"""Opens translators from model folders."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mtkit.errors import MtkitError
from mtkit.files import digest
from mtkit.inference.engines.open_engine import open_engine
from mtkit.inference.learned_aligner import LearnedAligner
from mtkit.inference.line import Reranker, TextModel
from mtkit.inference.line_pipeline import LinePipeline
from mtkit.inference.request import Request
from mtkit.inference.search_parts import names_no_folder, rerank
from mtkit.inference.terms import TermStep
from mtkit.inference.translation import FinishTranslations, Translation
from mtkit.model.alignment_head import find_word_aligner, has_alignments
from mtkit.model.config import (
    OpenedFolder,
    check_translates,
    open_model_folder,
    read_config,
)
from mtkit.model.digest import digest_model, reading
from mtkit.recipe.inference import Inference, Quality, Rerank
from mtkit.recipe.precision import Precision
from mtkit.text.languages import TranslatorLanguages

if TYPE_CHECKING:
    from mtkit.inference.quality import LineQuality, Measure


@runtime_checkable
class LineTranslator(Protocol):
    """Translates and scores lines: a `LinePipeline`, or a client of a server or an LLM.

    Attributes:
        settings: Search settings of requests without their own.
        aligns: Whether a head was chosen, or an aligner learned, for alignments.
        batches_at_once: Batches of `inference.batch_tokens` that it distributes to threads or
            processes.
    """

    settings: Inference
    languages: TranslatorLanguages
    aligns: bool
    batches_at_once: int

    @property
    def summary(self) -> str:
        """Summary of a glossary's terms or of LLM requests; empty without either."""
        ...

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Searches, and returns a function that makes the translations."""
        ...

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations, the requests' prefixes, with their scores."""
        ...


def open_translator(
    folders: Sequence[Path],
    *,
    device: str = "auto",
    settings: Inference | None = None,
    source_language: str = "",
    target_language: str = "",
) -> LinePipeline:
    """Opens a model, or an ensemble, with the arguments of `Translator`."""
    with reading(*folders):
        opened = [open_model_folder(folder) for folder in folders]
        _check_ensemble(folders, opened)
        config = opened[0].config
        settings = settings if settings is not None else opened[0].settings
        aligner_file = find_word_aligner(folders[0])
        tokenizer = opened[0].tokenizer
        languages = TranslatorLanguages.of(
            tokenizer.languages, config.source_language, config.target_language
        )
        model = TextModel(
            tokenizer,
            languages.with_default(source_language, target_language),
            config.target_language,
            continues=config.objective == "causal-lm",
            linearization=config.linearization,
            word_aligner=None if aligner_file is None else LearnedAligner(aligner_file),
            has_alignments=all(map(has_alignments, folders)),
        )
        if settings.glossary is not None:
            check_translates(config, "inference.glossary")
            if config.linearization is not None:
                raise MtkitError(
                    "inference.glossary is for translators, not for parsers", "remove it"
                )
        # Before the model, which may load slowly.
        pair = config.source_language, config.target_language
        rerank, can_rerank = _open_ranker(settings, pair, device)
        terms = TermStep(settings, model)
        quality = None
        if settings.quality is not None:
            quality = _read_quality(folders, settings.quality, device)
        engine_with_model = open_engine(folders, settings, device)
    pipeline = LinePipeline(
        engine_with_model, model, settings, terms=terms, rerank=rerank, can_rerank=can_rerank
    )
    if quality is not None:
        pipeline.quality = quality(pipeline)
    return pipeline


def _open_ranker(
    settings: Inference, languages: tuple[str, str], device: str
) -> tuple[Reranker, Callable[[Rerank], bool]]:
    """Returns the reranker, and a check that settings name only its open folders."""
    if settings.rerank is None or not settings.rerank.folders:
        return rerank, names_no_folder
    # Imported here: sacreBLEU loads slowly, and a learned metric needs torch.
    from mtkit.inference.rerank import ModelScorer, Ranker

    learned = None
    if settings.rerank.is_learned:
        from mtkit.inference.learned_metric import open_metric

        precision: Precision = "bf16" if settings.precision == "bf16" else "fp32"
        learned = open_metric(settings.rerank.metric, precision, device)
    models = {}
    for index, model in enumerate(settings.rerank.models):
        config = read_config(model.path)
        found = config.source_language, config.target_language
        if config.objective != "translation" or found not in (languages, languages[::-1]):
            raise MtkitError(
                f"inference.rerank.models.{index}: {model.path} isn't a translator of "
                f"{'-'.join(languages)} or {'-'.join(languages[::-1])}",
                "give a model of the same languages, or of the other direction",
            )
        own = Inference(precision=settings.precision, processes=settings.processes)
        lines = open_translator([model.path], device=device, settings=own)
        if lines.languages.are_needed:
            raise MtkitError(
                f"inference.rerank.models.{index}: {model.path} is multilingual",
                "give a model of this pair",
            )
        models[model.path] = ModelScorer(lines.score, is_reverse=found != languages)
    ranker = Ranker(settings.rerank.metric, learned, models)
    return ranker, ranker.opens


def _read_quality(
    folders: Sequence[Path], quality: Quality, device: str
) -> "Callable[[LinePipeline], LineQuality]":
    """Checks the quality file's models; returns a factory of a pipeline's estimator."""
    # Imported here: most translators estimate nothing.
    from mtkit.inference.quality import LineQuality, QualityFile

    file = QualityFile.read(quality.path)
    digests = {"model": digest_translator(folders), **digest_others(quality)}
    file.check_models(quality.path, digests)
    chosen = quality.model_copy(update={"samples": file.samples})
    return lambda pipeline: LineQuality(file, quality, open_measures(pipeline, chosen, device))


def digest_translator(folders: Sequence[Path]) -> str:
    """Returns a digest of the models of a translator."""
    return digest([digest_model(folder) for folder in folders])


def digest_others(quality: Quality) -> dict[str, str]:
    """Returns digests of the other models of `inference.quality` by key; empty without one."""
    reverse, metric = quality.reverse, quality.metric
    return {
        "reverse": "" if reverse is None else digest_translator([reverse]),
        "metric": "" if metric is None else digest_model(metric),
    }


def open_measures(pipeline: LinePipeline, quality: Quality, device: str) -> "list[Measure]":
    """Returns what measures pairs for the quality of a pipeline's translations."""
    from mtkit.inference.quality import list_measures

    reverse = None
    if quality.reverse is not None:
        reverse = open_translator([quality.reverse], device=device)
        source, target = pipeline.languages.default
        try:
            # Without a default each line names its own.
            if source and target:
                reverse.languages.resolve(target, source)
        except MtkitError as error:
            raise MtkitError(
                f"inference.quality.reverse = {quality.reverse}: {error.message}", error.hint
            ) from error
    metric = None
    if quality.metric is not None:
        # Imported here: it needs torch.
        from mtkit.inference.learned_metric import open_metric

        metric = open_metric(str(quality.metric), device=device)
        if metric.needs_reference:
            raise MtkitError(
                f"inference.quality.metric = {quality.metric}: {metric.model} needs references",
                "name a metric without references, such as CometKiwi",
            )
    return list_measures(pipeline, reverse=reverse, metric=metric, samples=quality.samples)


def _check_ensemble(folders: Sequence[Path], opened: Sequence[OpenedFolder]) -> None:
    """Checks that models share inputs and outputs, so that their probabilities can be averaged."""
    if not opened:
        raise MtkitError("no model folder given", "give one, such as runs/x/model")
    wanted = _list_traits(opened[0])
    for folder, other in zip(folders[1:], opened[1:], strict=True):
        for what, trait in _list_traits(other).items():
            if trait != wanted[what]:
                raise MtkitError(
                    f"{folder} has {what} than {folders[0]}: they can't be ensembled",
                    "ensemble models that were trained on the same prepared data, for example "
                    "with different seeds",
                )


def _list_traits(opened: OpenedFolder) -> dict[str, object]:
    """Returns what the models of an ensemble must share, by the phrase for a difference."""
    config, tokenizer = opened.config, opened.tokenizer
    return {
        "a different source language": config.source_language,
        "a different target language": config.target_language,
        "a different objective": config.objective,
        "another form of trees": config.linearization,
        "a different tokenizer": tokenizer.models,
        "different source tags": tokenizer.tags,
        "different symbols for copying": tokenizer.masks,
        "other languages": tokenizer.languages,
        "different punctuation rules": tokenizer.punctuation,
    }
