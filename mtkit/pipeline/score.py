"""Entry point of `mtkit score`: translates and scores a recipe's test sets."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from mtkit.console import say, warn
from mtkit.data.sources.corpora import (
    put_tag,
    read_corpus_pairs,
    read_corpus_text,
    read_labelled,
    require_parallel,
    without_tag,
)
from mtkit.data.sources.published import read_published
from mtkit.data.sources.treebank import read_treebank
from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import ReferenceText
from mtkit.evaluation.label_scores import evaluate_labels
from mtkit.evaluation.perplexity import MaskedPredictions, PredictedText, evaluate_text
from mtkit.evaluation.report.tables import ScoreRow, as_cells, from_tables, list_rows
from mtkit.files import as_json_text, describe_fault, digest, read_json, write_atomically
from mtkit.inference.identity import identify
from mtkit.inference.predict_text import predict_text
from mtkit.inference.translator import Translator
from mtkit.locks import locked
from mtkit.model.card import write_scores
from mtkit.model.config import open_model_folder, read_config
from mtkit.model.digest import digest_model, reading, replaced
from mtkit.pipeline.score_files import (
    ScoredText,
    check_learned,
    check_metric_folder,
    read_origins,
    score_systems,
    split_pair,
)
from mtkit.pipeline.translate import load_run
from mtkit.pipeline.translation_files import TranslationFiles
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference, Rerank
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.masking import Masking
from mtkit.recipe.tables import list_differences, select_keys
from mtkit.recipe.test_sets import (
    LabelledTestSet,
    PlantedTestSet,
    PublishedTestSet,
    TestSet,
    TreeTestSet,
)
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus
from mtkit.text.glossary import read_glossary
from mtkit.text.trees.brackets import escape, write_tree
from mtkit.workspace import Workspace


class RunModel:
    """The model that translates a run's test sets; fails if another command replaces it.

    `identity` identifies the loaded model, or the one to be loaded.
    """

    def __init__(self, settings: Inference, workspace: Workspace, *, device: str) -> None:
        settings = settings.model_copy(update={"quality": None})
        self.folder = workspace.model
        with reading(self.folder):
            self.identity = identify(self.folder, settings, device)
        self._load = partial(load_run, settings, workspace, device=device)
        self._translator: Translator | None = None

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the translation of each line."""
        if self._translator is None:
            self._translator = self._load()
            self.check()
        return list(self._translator.translate(lines))

    def check(self) -> None:
        """Checks that the folder still holds this model."""
        if digest_model(self.folder) != self.identity.model:
            raise replaced([self.folder])


def score(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", keeps_others: bool = False
) -> list[ScoredText]:
    """Writes translations and scores of the recipe's test sets into the workspace.

    A causal language model translates nothing: its score is perplexity. A classifier's are accuracy
    and macro-F1. Scores go to `scores.json`, the manifest, and the model's card. An earlier
    translation is reused if model, text and settings are the same. With `keeps_others` the same
    model's scores on other test sets stay.
    """
    if not recipe.evaluation.test_sets:
        hint = (
            "add an [[evaluation.test_sets]] with name, source and target, or score a file: "
            "mtkit score --hypothesis FILE --reference FILE"
        )
        if recipe.data.is_text:
            hint = "mtkit train measures it on data.dev; test sets have the keys of data.dev"
        raise MtkitError(
            f"recipe {recipe.name} has no test sets: evaluation.test_sets is empty", hint
        )
    check_named_files(recipe.evaluation, recipe.inference)
    model = RunModel(recipe.inference, workspace, device=device)
    # A translation's dependencies besides its source, as JSON values.
    settings = select_keys(recipe.model_dump(mode="json"), Invalidates.TRANSLATIONS)
    _note_other_settings(settings, workspace)
    _warn_of_own_metric(recipe.inference.rerank, recipe.evaluation.metrics)
    origin: dict[str, object] = {**asdict(model.identity), **settings}
    rerank = recipe.inference.rerank
    if rerank is not None and rerank.is_learned and rerank.utility_weight:
        origin["rerank_metric"] = digest_model(Path(rerank.metric))
    if rerank is not None and rerank.models:
        origin["rerank_models"] = [digest_model(each.path) for each in rerank.models]
    if recipe.objective == "classification":
        scored = _score_labels(
            recipe.name, recipe.evaluation, recipe.inference, model, device=device
        )
    elif recipe.data.is_text:
        scored = _score_text(recipe, model, device=device)
    else:
        scored = _score_translations(
            recipe.name,
            recipe.evaluation,
            recipe.data.languages,
            workspace,
            model,
            origin=origin,
            device=device,
        )
    # The run's own model needs no name in its scores.
    rows = [row for each in scored for row in list_rows(each.evaluated, names_systems=False)]
    _save_scores(workspace, model, rows, origin, keeps_others=keeps_others)
    return scored


def check_named_files(evaluation: Evaluation, inference: Inference) -> None:
    """Checks the files and folders that scoring and reranking will need, without their weights."""
    check_learned(evaluation)
    if evaluation.glossary is not None:
        read_glossary(evaluation.glossary)
    rerank = inference.rerank
    if rerank is not None and rerank.is_learned:
        check_metric_folder(rerank.metric)
    for model in () if rerank is None else rerank.models:
        read_config(model.path)


def _note_other_settings(settings: dict[str, object], workspace: Workspace) -> None:
    """Reports what differs from the recipe that the run was trained with."""
    try:
        trained = load_recipe(workspace.recipe_file).model_dump(mode="json")
    except MtkitError:
        # Missing, or with a path in invalid UTF-8, which TOML can't have: nothing to compare.
        return
    if changes := list_differences(settings, select_keys(trained, Invalidates.TRANSLATIONS)):
        say(
            f"{workspace.root} is scored with settings other than those of its training: "
            f"{', '.join(changes)}; to keep those: --recipe {workspace.recipe_file}"
        )


def _warn_of_own_metric(rerank: Rerank | None, metrics: Sequence[str]) -> None:
    """Warns if translations are chosen by a metric that is reported."""
    if rerank is None or not rerank.utility_weight:
        return
    chosen = (rerank.metric,) if rerank.is_learned else (rerank.metric, f"{rerank.metric}++")
    if own := [each for each in metrics if each in chosen]:
        warn(
            f'inference.rerank.metric = "{rerank.metric}" chose the translations, so their '
            f"{' and '.join(own)} is too good to compare: compare systems by another metric"
        )


def score_published(
    recipe: Recipe, workspace: Workspace, test_set: str, *, device: str = "auto"
) -> list[ScoredText]:
    """Scores a run's model on a test set of sacreBLEU's; keeps its scores on other test sets.

    The recipe's own test sets are ignored. `test_set` is a name such as `wmt14/full`; a language
    pair after it must be the recipe's.
    """
    languages = recipe.data.languages
    name, pair = split_pair(test_set, languages)
    if pair != languages:
        raise MtkitError(
            f"--test-set {test_set}: the model translates {'-'.join(languages)}",
            f"use --test-set {name}",
        )
    published = PublishedTestSet(name=name.replace("/", "-"), sacrebleu=name)
    evaluation = recipe.evaluation.model_copy(update={"test_sets": (published,)})
    recipe = recipe.model_copy(update={"evaluation": evaluation})
    return score(recipe, workspace, device=device, keeps_others=True)


def _score_translations(
    name: str,
    settings: Evaluation,
    languages: tuple[str, str],
    workspace: Workspace,
    model: RunModel,
    *,
    origin: dict[str, object],
    device: str,
) -> list[ScoredText]:
    """Returns the scores of each test set's translation, made unless it is up to date."""
    origins = read_origins(settings, len(settings.test_sets))
    # All are read before the first is translated: a missing file is reported at once.
    texts = [_read_test_set(test_set, languages) for test_set in settings.test_sets]
    scored = []
    for test_set, (sources, references) in zip(settings.test_sets, texts, strict=True):
        files = TranslationFiles(workspace, test_set.name)
        tagged = [put_tag(test_set.tag, source) for source in sources]
        made_from = {**origin, "source": digest(tagged)}
        translation = files.take(sources, references, made_from)
        if translation is not None:
            say(f"{test_set.name}: {len(sources):,} sentences, already translated")
        else:
            say(f"{test_set.name}: translating {len(sources):,} sentences")
            translation = files.write(sources, references, model.translate(tagged), made_from)
        text = ReferenceText(test_set.name, translation.references, sources, origins)
        systems = {name: translation.hypotheses}
        scored.append(score_systems(systems, text, settings, languages[1], device=device))
    return scored


def _score_text(recipe: Recipe, model: RunModel, *, device: str) -> list[ScoredText]:
    """Returns a language model's perplexity of each test set; a masked one's accuracy too."""
    texts = {
        test_set.name: read_corpus_text(test_set)
        for test_set in recipe.evaluation.test_sets
        if isinstance(test_set, TextCorpus | TextTableCorpus)
    }
    masking = recipe.training.masked if recipe.objective == "masked-lm" else None
    block_tokens = recipe.data.block_tokens
    predict = _open_predictor(recipe.inference, masking, block_tokens, model, device=device)
    scored = []
    for name, (lines, documents) in texts.items():
        if not lines:
            raise MtkitError(
                f"evaluation.test_sets: {name} has no lines", "is this the right file?"
            )
        say(f"{name}: measuring {len(lines):,} lines")
        evaluated = evaluate_text(recipe.name, name, predict(lines, documents), recipe.evaluation)
        scored.append(ScoredText(evaluated, {}, ReferenceText(name, [lines])))
    return scored


def _open_predictor(
    settings: Inference, masking: Masking | None, block_tokens: int, model: RunModel, *, device: str
) -> Callable[[Sequence[str], NDArray[np.int64]], PredictedText | MaskedPredictions]:
    """Returns a function that predicts lines, given these and their documents' numbers."""
    # Imported here: translators are scored without it.
    from mtkit.inference.engines.open_engine import open_engine  # noqa: PLC0415
    from mtkit.inference.predict_masked import MaskedTokenPredictor  # noqa: PLC0415

    if masking is not None:
        predictor = MaskedTokenPredictor(model.folder, settings, device)
        model.check()
        return partial(predictor.predict, masking=masking, block_tokens=block_tokens)
    with reading(model.folder):
        opened = open_model_folder(model.folder)
        engine = open_engine([model.folder], settings, device)
        model.check()
    return partial(
        predict_text,
        engine,
        opened.tokenizer,
        context_tokens=block_tokens,
        batch_tokens=settings.batch_tokens,
    )


def _score_labels(
    name: str, settings: Evaluation, inference: Inference, model: RunModel, *, device: str
) -> list[ScoredText]:
    """Returns a classifier's accuracy and macro-F1 on each test set."""
    # Imported here: translators are scored without torch and pyarrow.
    from mtkit.data.preparation.clean_labelled import check_known  # noqa: PLC0415
    from mtkit.inference.classify import LineClassifier  # noqa: PLC0415

    corpora = [
        corpus
        for corpus in settings.test_sets
        if isinstance(corpus, LabelledTestSet | PlantedTestSet)
    ]
    # All are read before the first is labelled: a missing file is reported at once.
    rows_by_name = {corpus.name: read_labelled(corpus) for corpus in corpora}
    classifier = LineClassifier(model.folder, device=device, settings=inference)
    model.check()
    scored = []
    for corpus in corpora:
        check_known(corpus, list(classifier.labels))
        rows = rows_by_name[corpus.name]
        texts, wanted = rows["text"], rows["label"]
        if not texts:
            raise MtkitError(
                f"evaluation.test_sets: {corpus.name} has no texts", "is this the right file?"
            )
        say(f"{corpus.name}: labelling {len(texts):,} texts")
        seconds = rows["second"] if classifier.has_pairs else None
        found = [one.label for one in classifier.classify(texts, seconds)]
        evaluated = evaluate_labels({name: found}, corpus.name, wanted, classifier.labels, settings)
        scored.append(ScoredText(evaluated, {}, ReferenceText(corpus.name, [wanted])))
    return scored


def _save_scores(
    workspace: Workspace,
    model: RunModel,
    rows: list[ScoreRow],
    origin: dict[str, object],
    *,
    keeps_others: bool,
) -> None:
    """Writes scores to `scores.json`, the manifest and the translating model's card."""
    # The locks keep the model from being replaced meanwhile.
    with locked(workspace.scores_file), locked(model.folder):
        model.check()
        if keeps_others:
            rows = [*_read_others(workspace, origin, {row.test_set for row in rows}), *rows]
        facts = {**origin, "scores": [asdict(row) for row in rows]}
        write_atomically(workspace.scores_file, as_json_text(facts))
        workspace.record("score", facts)
        write_scores(model.folder, as_cells(rows), origin=model.identity.describe())


def _read_others(
    workspace: Workspace, origin: dict[str, object], names: set[str]
) -> list[ScoreRow]:
    """Returns the scores of the same origin on other test sets than these."""
    if not workspace.scores_file.is_file():
        return []
    saved = read_json(workspace.scores_file)
    if any(saved.get(key) != value for key, value in origin.items()):
        return []
    try:
        rows = from_tables(saved.get("scores"))
    except ValidationError as error:
        raise MtkitError(
            f"{workspace.scores_file}: made by an unreleased mtkit, or damaged: "
            f"scores: {describe_fault(error)}",
            "score the recipe's test sets again: mtkit score --workspace "
            f"{shlex.quote(str(workspace.root))}",
        ) from error
    return [row for row in rows if row.test_set not in names]


def _read_test_set(
    test_set: TestSet, languages: tuple[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Returns a test set's sources, without its tag, and its sets of references."""
    if isinstance(test_set, PublishedTestSet):
        return read_published(test_set.sacrebleu, languages=languages)
    if isinstance(test_set, TreeTestSet):
        trees = list(read_treebank(test_set))
        return [" ".join(map(escape, tree.words)) for tree in trees], [list(map(write_tree, trees))]
    pairs = list(
        read_corpus_pairs(
            without_tag(require_parallel(test_set)),
            phrasebook_split="test",
            languages=languages,
        )
    )
    return [source for source, _ in pairs], [[reference for _, reference in pairs]]
