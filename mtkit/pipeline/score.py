"""The front door of `mtkit score`: a recipe's test sets translated and scored."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mtkit.console import say, warn
from mtkit.data.preparation.labelled_text import check_known
from mtkit.data.sources.corpora import put_tag, read_pairs, require_parallel, without_tag
from mtkit.data.sources.labelled import read_labelled
from mtkit.data.sources.one_language import read_text
from mtkit.data.sources.published import read_published
from mtkit.data.sources.treebank import read_treebank
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.evaluation.comet import check_comet
from mtkit.evaluation.evaluate import ReferenceText
from mtkit.evaluation.labels import evaluate_labels
from mtkit.evaluation.perplexity import HiddenText, PredictedText, evaluate_text
from mtkit.evaluation.report.tables import ScoreRow, as_cells, as_tables, from_table, list_rows
from mtkit.files import read_json, write_atomically
from mtkit.inference.identity import identify
from mtkit.inference.predict_text import predict_text
from mtkit.inference.translate import Translator
from mtkit.locks import locked
from mtkit.model.card import write_scores
from mtkit.model.config import open_model_folder
from mtkit.model.digest import digest_model, reading, replaced
from mtkit.model.exporters.ctranslate2_files import ENGINE_FOLDER, read_origin
from mtkit.pipeline.engine_choice import choose_engine, find_export_fault
from mtkit.pipeline.score_files import ScoredText, read_origins, score_systems, split_pair
from mtkit.pipeline.translate import load_run
from mtkit.pipeline.translation_files import TranslatedTestSet, TranslationFiles
from mtkit.recipe import Recipe
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import select
from mtkit.recipe.test_sets import (
    LabelledTestSet,
    PlantedTestSet,
    PublishedTestSet,
    TestSet,
    TreeTestSet,
)
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus
from mtkit.text.trees.brackets import escape, write_tree
from mtkit.workspace import Workspace


class RunModel:
    """The model that translates a run's test sets; fails if another command replaces it.

    Args:
        recipe: Whose decoding settings apply.
        workspace: The run.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.

    Attributes:
        folder: Where its files are.
        identity: Identifies the model that was loaded, or will be.

    Raises:
        MtkitError: There is no model or no such device; it was exported from another model.
    """

    def __init__(self, recipe: Recipe, workspace: Workspace, *, device: str) -> None:
        recipe = _with_engine_named(recipe)
        self.folder = choose_engine(recipe, workspace).folder
        if self.folder == workspace.export:
            _check_export(workspace)
        with reading(self.folder):
            self.identity = identify(self.folder, recipe.inference, device)
        self._load = partial(load_run, recipe, workspace, device=device)
        self._translator: Translator | None = None

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the translation of each line.

        Raises:
            MtkitError: The model can't be loaded, or isn't the one that it was.
        """
        if self._translator is None:
            self._translator = self._load()
            self.check()
        return list(self._translator.translate(lines))

    def check(self) -> None:
        """Checks that the folder still holds this model.

        Raises:
            MtkitError: It doesn't.
        """
        if digest_model(self.folder, self.identity.engine) != self.identity.model:
            raise replaced([self.folder])


def score(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", keeps_others: bool = False
) -> list[ScoredText]:
    """Writes translations and scores of the recipe's test sets into the workspace.

    A causal language model translates nothing: its score is the perplexity of the text. A
    classifier's are accuracy and macro-F1.

    The scores are in `scores.json`, in the manifest and in the card of the model or the export that
    translated. An earlier translation is reused if model, text and settings are the same.

    Args:
        recipe: Whose test sets are scored.
        workspace: Where its model is.
        device: `cpu`, `cuda`, or `auto`.
        keeps_others: Whether to keep the same model's scores on other test sets.

    Returns:
        The result of each test set.

    Raises:
        MtkitError: No test sets, no model, or corpora that can't be read; an export of another
            model; a model that another command has replaced meanwhile.
    """
    if not recipe.evaluation.test_sets:
        raise MtkitError(
            f"recipe {recipe.name} has no test sets: evaluation.test_sets is empty",
            "add an [[evaluation.test_sets]] with name, source and target, or score a file: "
            "mtkit score --hypothesis FILE --reference FILE",
        )
    if recipe.evaluation.comet is not None:
        check_comet(recipe.evaluation.comet, sources=())
    model = RunModel(recipe, workspace, device=device)
    scored = (
        _score_labels(recipe, model, device=device)
        if recipe.objective == "classification"
        else _score_text(recipe, model, device=device)
        if recipe.data.is_text
        else _score_translations(recipe, workspace, model)
    )
    # The run's own model needs no name among its scores.
    rows = [row for each in scored for row in list_rows(each.evaluated, names_systems=False)]
    _file_scores(workspace, model, rows, _describe(recipe, model), keeps_others=keeps_others)
    return scored


def score_published(
    recipe: Recipe, workspace: Workspace, test_set: str, *, device: str = "auto"
) -> list[ScoredText]:
    """Scores a run's model on a test set that sacreBLEU knows; keeps its scores on other test sets.

    Args:
        recipe: Whose languages and settings hold; its own test sets are ignored.
        workspace: Where its model is.
        test_set: sacreBLEU's name, such as `wmt14/full`; a pair behind it must be the recipe's.
        device: `cpu`, `cuda`, or `auto`.

    Raises:
        MtkitError: It is of other languages; what `score` raises.
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


def _score_translations(recipe: Recipe, workspace: Workspace, model: RunModel) -> list[ScoredText]:
    """Returns the scores of each test set's translation."""
    scored: list[ScoredText] = []
    origins = _read_origins(recipe)
    for translation in _translate_test_sets(recipe, workspace, model):
        text = ReferenceText(
            translation.name,
            translation.references,
            translation.sources,
            origins,
        )
        language = recipe.data.target_language
        systems = {recipe.name: translation.hypotheses}
        scored.append(score_systems(systems, text, recipe.evaluation, language))
    return scored


def _score_text(recipe: Recipe, model: RunModel, *, device: str) -> list[ScoredText]:
    """Returns a language model's perplexity of each test set; a masked one's accuracy too."""
    if recipe.objective not in ("causal-lm", "masked-lm"):
        raise MtkitError(
            f'mtkit score has no score of objective = "{recipe.objective}" yet: its loss is '
            "measured on data.dev at each checkpoint",
            "remove evaluation.test_sets, and give the text that counts as data.dev",
        )
    texts = {
        test_set.name: read_text(test_set)
        for test_set in recipe.evaluation.test_sets
        if isinstance(test_set, TextCorpus | TextTableCorpus)
    }
    predict = _open_predictor(recipe, model, device=device)
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
    recipe: Recipe, model: RunModel, *, device: str
) -> Callable[[Sequence[str], NDArray[np.int64]], PredictedText | HiddenText]:
    """Returns what a language model makes of lines, given them and their documents' numbers."""
    # Imported here: CTranslate2 translates without torch.
    from mtkit.inference.engines.open_torch_engine import open_torch_engine  # noqa: PLC0415
    from mtkit.inference.predict_hidden import HiddenTokenPredictor  # noqa: PLC0415

    block_tokens = recipe.data.block_tokens
    if recipe.objective == "masked-lm":
        predictor = HiddenTokenPredictor(model.folder, recipe.inference, device)
        model.check()
        return partial(predictor.predict, masking=recipe.training.masked, block_tokens=block_tokens)
    with reading(model.folder):
        opened = open_model_folder(model.folder)
        engine = open_torch_engine([model.folder], recipe.inference, device)
        model.check()
    return partial(
        predict_text,
        engine,
        opened.tokenizer,
        context_tokens=block_tokens,
        batch_tokens=recipe.inference.batch_tokens,
    )


def _score_labels(recipe: Recipe, model: RunModel, *, device: str) -> list[ScoredText]:
    """Returns a classifier's accuracy and macro-F1 on each test set."""
    # Imported here: CTranslate2 translates without torch.
    from mtkit.inference.classify import LineClassifier  # noqa: PLC0415

    corpora = [
        corpus
        for corpus in recipe.evaluation.test_sets
        if isinstance(corpus, LabelledTestSet | PlantedTestSet)
    ]
    # Each is read before the first is labelled: a missing file is reported at once.
    rows_by_name = {corpus.name: list(read_labelled(corpus)) for corpus in corpora}
    classifier = LineClassifier(model.folder, device=device, settings=recipe.inference)
    model.check()
    scored = []
    for corpus in corpora:
        check_known(corpus, list(classifier.labels))
        rows = rows_by_name[corpus.name]
        if not rows:
            raise MtkitError(
                f"evaluation.test_sets: {corpus.name} has no texts", "is this the right file?"
            )
        say(f"{corpus.name}: labelling {len(rows):,} texts")
        seconds = [row.second for row in rows] if classifier.has_pairs else None
        found = [one.label for one in classifier.classify([row.text for row in rows], seconds)]
        wanted = [row.label for row in rows]
        evaluated = evaluate_labels(
            {recipe.name: found}, corpus.name, wanted, classifier.labels, recipe.evaluation
        )
        scored.append(ScoredText(evaluated, {}, ReferenceText(corpus.name, [wanted])))
    return scored


def _file_scores(
    workspace: Workspace,
    model: RunModel,
    rows: list[ScoreRow],
    origin: dict[str, object],
    *,
    keeps_others: bool,
) -> None:
    """Writes scores to `scores.json`, to the manifest and to the translating model's card.

    Raises:
        MtkitError: The model has been replaced by another since.
    """
    # Nobody can put another model there meanwhile.
    with locked(workspace.scores_file), locked(model.folder):
        model.check()
        if keeps_others:
            rows = [*_read_others(workspace, origin, {row.test_set for row in rows}), *rows]
        facts = {**origin, "scores": as_tables(rows)}
        text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomically(workspace.scores_file, text)
        workspace.record("score", facts)
        write_scores(model.folder, as_cells(rows), origin=model.identity.describe())


def _with_engine_named(recipe: Recipe) -> Recipe:
    """Returns a recipe with `torch` for `auto`: scores don't depend on what else is installed."""
    if recipe.inference.engine != "auto":
        return recipe
    inference = recipe.inference.model_copy(update={"engine": "torch"})
    return recipe.model_copy(update={"inference": inference})


def _check_export(workspace: Workspace) -> None:
    """Checks that the export was made from the run's model, if that is recorded.

    Raises:
        MtkitError: It was made from another.
    """
    fault = find_export_fault(workspace)
    if fault is not None:
        raise fault
    if not read_origin(workspace.export / ENGINE_FOLDER)[0]:
        warn(
            f"{workspace.export} was exported by an earlier version of mtkit, which didn't record "
            "the model; if the model has changed since, export it again with `mtkit export`"
        )


def _translate_test_sets(
    recipe: Recipe, workspace: Workspace, model: RunModel
) -> Iterator[TranslatedTestSet]:
    """Yields each test set with its translation, which is made where it isn't up to date."""
    # Each is read before the first is translated: a missing file is reported at once.
    text_by_name = {
        test_set.name: _read_test_set(recipe, test_set) for test_set in recipe.evaluation.test_sets
    }
    tags = {test_set.name: test_set.tag for test_set in recipe.evaluation.test_sets}
    for name, (sources, references) in text_by_name.items():
        files = TranslationFiles(workspace, name)
        tagged = [put_tag(tags[name], source) for source in sources]
        made_from = {**_describe(recipe, model), "source": digest(tagged)}
        translation = files.take(tagged, references, made_from)
        if translation is not None:
            say(f"{name}: {len(sources):,} sentences, already translated")
        else:
            say(f"{name}: translating {len(sources):,} sentences")
            hypotheses = model.translate(tagged)
            translation = files.write(tagged, references, hypotheses, made_from)
        yield replace(translation, sources=sources)


def _describe(recipe: Recipe, model: RunModel) -> dict[str, object]:
    """Returns what a translation depends on beside its source, as JSON can express it."""
    settings = select(recipe.model_dump(mode="json"), Invalidates.TRANSLATIONS)
    return {**asdict(model.identity), **settings}


def _read_origins(recipe: Recipe) -> list[str] | None:
    if recipe.evaluation.origins is not None and len(recipe.evaluation.test_sets) != 1:
        raise MtkitError(
            "evaluation.origins names the origins of one test set's sentences, but there are "
            f"{len(recipe.evaluation.test_sets)} test sets",
            "remove it, and score that test set's translation with --hypothesis",
        )
    return read_origins(recipe.evaluation)


def _read_others(
    workspace: Workspace, origin: dict[str, object], names: set[str]
) -> list[ScoreRow]:
    """Returns the scores on other test sets than these that are of the same origin."""
    if not workspace.scores_file.is_file():
        return []
    saved = read_json(workspace.scores_file)
    if any(saved.get(key) != value for key, value in origin.items()):
        return []
    # A value is missing where an older version took COMET's NaN for one.
    return [
        from_table(row)
        for row in saved["scores"]
        if row["test_set"] not in names and row["value"] is not None
    ]


def _read_test_set(recipe: Recipe, test_set: TestSet) -> tuple[list[str], list[list[str]]]:
    """Returns a test set's sources, without its tag, and its sets of references."""
    if isinstance(test_set, PublishedTestSet):
        return read_published(test_set.sacrebleu, languages=recipe.data.languages)
    if isinstance(test_set, TreeTestSet):
        trees = list(read_treebank(test_set))
        return [" ".join(map(escape, tree.words)) for tree in trees], [list(map(write_tree, trees))]
    pairs = list(
        read_pairs(
            without_tag(require_parallel(test_set)),
            phrasebook_split="test",
            languages=recipe.data.languages,
        )
    )
    return [source for source, _ in pairs], [[reference for _, reference in pairs]]
