"""The front door of `mtkit score`: a recipe's test sets translated and scored."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from mtkit.console import say, warn
from mtkit.data.sources.corpora import put_tag, read_pairs
from mtkit.data.sources.published import read_published
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.evaluation.comet import check_comet
from mtkit.evaluation.evaluate import ReferenceText
from mtkit.evaluation.report.tables import ScoreRow, as_cells, as_tables, from_table, list_rows
from mtkit.files import read_json, write_atomically
from mtkit.inference.identity import identify
from mtkit.inference.translate import Translator
from mtkit.locks import locked
from mtkit.model.card import write_scores
from mtkit.model.digest import digest_model, reading, replaced
from mtkit.model.exporters.ctranslate2_files import ENGINE_FOLDER, read_origin
from mtkit.pipeline.score_files import ScoredText, read_origins, score_systems, split_pair
from mtkit.pipeline.translate import find_export_fault, find_model, load_run
from mtkit.pipeline.translation_files import TranslatedTestSet, TranslationFiles
from mtkit.recipe import Recipe
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import select
from mtkit.recipe.test_sets import PublishedTestSet, TestSet
from mtkit.workspace import Workspace


class RunModel:
    """The model that translates a run's test sets: one, whatever other commands do meanwhile.

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
        self.folder = find_model(recipe, workspace)
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

    The scores stand in `scores.json`, in the manifest and in the card of what translated: the
    model's, or the export's. A translation that the same files made of the same text in the same
    way is taken as it is.

    Args:
        recipe: Whose test sets are scored.
        workspace: Where its model is.
        device: `cpu`, `cuda`, or `auto`.
        keeps_others: Whether scores that the same model has on other test sets stay beside them.

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
    scored = []
    if recipe.evaluation.comet is not None:
        check_comet(recipe.evaluation.comet, sources=())
    origins = _read_origins(recipe)
    model = RunModel(recipe, workspace, device=device)
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
    # The run's own model needs no name among its scores.
    rows = [row for each in scored for row in list_rows(each.evaluated, names_systems=False)]
    _file_scores(workspace, model, rows, _describe(recipe, model), keeps_others=keeps_others)
    return scored


def score_published(
    recipe: Recipe, workspace: Workspace, test_set: str, *, device: str = "auto"
) -> list[ScoredText]:
    """Scores a run's model on a test set that sacreBLEU knows; its scores on others stay.

    Args:
        recipe: Whose languages and settings hold; its own test sets are left out.
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
            f"take --test-set {name}",
        )
    published = PublishedTestSet(name=name.replace("/", "-"), sacrebleu=name)
    evaluation = recipe.evaluation.model_copy(update={"test_sets": (published,)})
    recipe = recipe.model_copy(update={"evaluation": evaluation})
    return score(recipe, workspace, device=device, keeps_others=True)


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
        MtkitError: Another model lies there by now, of which these scores aren't.
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


def _check_export(workspace: Workspace) -> None:
    """Checks that what was exported was made from the run's model, as far as that can be known.

    Raises:
        MtkitError: It was made from another.
    """
    fault = find_export_fault(workspace)
    if fault is not None:
        raise fault
    if not read_origin(workspace.export / ENGINE_FOLDER)[0]:
        warn(
            f"{workspace.export} was exported by an earlier version of mtkit, which didn't note "
            "the model: if that was replaced since, export it again with `mtkit export`"
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
            say(f"{name}: {len(sources):,} sentences, translated already")
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
            "evaluation.origins tells where the sentences of one test set come from, but there are "
            f"{len(recipe.evaluation.test_sets)}",
            "leave it out, and score that set's translation with --hypothesis",
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
    pairs = list(
        read_pairs(
            test_set.model_copy(update={"tag": ""}),
            phrasebook_split="test",
            languages=recipe.data.languages,
        )
    )
    return [source for source, _ in pairs], [[reference for _, reference in pairs]]
