"""The front door of `mtkit score`: a recipe's test sets translated and scored."""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.console import say
from mtkit.data.sources.corpora import put_tag, read_pairs
from mtkit.data.sources.lines import read_lines
from mtkit.data.sources.published import read_published
from mtkit.errors import MtkitError
from mtkit.evaluation.comet import check_comet
from mtkit.evaluation.evaluate import ReferenceText
from mtkit.evaluation.report.tables import ScoreRow, as_cells, as_tables, from_table, list_rows
from mtkit.inference.model_folder import write_scores
from mtkit.inference.translate import Translator
from mtkit.pipeline.score_files import ScoredText, read_origins, score_systems, split_pair
from mtkit.pipeline.translate import load_run
from mtkit.recipe import Recipe
from mtkit.recipe.test_sets import PublishedTestSet, TestSet
from mtkit.workspace import Workspace, digest, digest_file, read_json, write_atomically


@dataclass(frozen=True)
class Translation:
    """A test set with the model's translation of it, sentence by sentence.

    Attributes:
        name: The test set's name.
        sources: What was translated.
        references: Sets of translations that people made.
        hypotheses: The translations that the model made.
    """

    name: str
    sources: list[str]
    references: list[list[str]]
    hypotheses: list[str]


def score(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto", keeps_others: bool = False
) -> list[ScoredText]:
    """Leaves translations and scores of the recipe's test sets in the workspace.

    The scores stand in `scores.json`, in the manifest and in the model's card. A translation that
    the same model made of the same text in the same way is taken as it is.

    Args:
        recipe: Whose test sets are scored.
        workspace: Where its model is.
        device: What it runs on.
        keeps_others: Whether scores that the same model has on other test sets stay beside them.

    Returns:
        What was found out about each test set.

    Raises:
        MtkitError: No test sets, no model, or corpora that can't be read.
    """
    scored = []
    if recipe.evaluation.comet is not None:
        check_comet(recipe.evaluation.comet, sources=())
    origins = _read_origins(recipe)
    for translation in translate_test_sets(recipe, workspace, device=device):
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
    model = digest_model(workspace.model)
    if keeps_others:
        rows = [*_read_others(workspace, model, {row.test_set for row in rows}), *rows]
    tables = as_tables(rows)
    facts = {"model": model, "scores": tables}
    write_atomically(workspace.scores_file, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    workspace.record("score", facts)
    write_scores(workspace.model, as_cells(rows))
    return scored


def with_published(recipe: Recipe, test_set: str) -> Recipe:
    """Returns a recipe with a test set that sacreBLEU knows in place of its own.

    Args:
        recipe: Whose languages hold.
        test_set: sacreBLEU's name, such as `wmt14/full`; a pair behind it must be the recipe's.

    Raises:
        MtkitError: It is of other languages.
    """
    languages = recipe.data.source_language, recipe.data.target_language
    name, pair = split_pair(test_set, languages)
    if pair != languages:
        raise MtkitError(
            f"--test-set {test_set}: the model translates {'-'.join(languages)}",
            f"take --test-set {name}",
        )
    published = PublishedTestSet(name=name.replace("/", "-"), sacrebleu=name)
    evaluation = recipe.evaluation.model_copy(update={"test_sets": (published,)})
    return recipe.model_copy(update={"evaluation": evaluation})


def translate_test_sets(
    recipe: Recipe, workspace: Workspace, *, device: str = "auto"
) -> Iterator[Translation]:
    """Yields each test set with its translation, which is made where it isn't up to date.

    Raises:
        MtkitError: No test sets, no model, or corpora that can't be read.
    """
    if not recipe.evaluation.test_sets:
        raise MtkitError(
            f"recipe {recipe.name} has no test sets: evaluation.test_sets is empty",
            "add an [[evaluation.test_sets]] with name, source and target, or score a file: "
            "mtkit score --hypothesis FILE --reference FILE",
        )
    model = digest_model(workspace.model)
    # Each is read before the first is translated: a missing file is told at once.
    text_by_name = {
        test_set.name: _read_test_set(recipe, test_set) for test_set in recipe.evaluation.test_sets
    }
    tags = {test_set.name: test_set.tag for test_set in recipe.evaluation.test_sets}
    translator: Translator | None = None
    for name, (sources, references) in text_by_name.items():
        files = _TranslationFiles(workspace, name)
        made_from = {
            "model": model,
            # How many are translated together changes speed alone.
            "inference": recipe.inference.model_dump(mode="json", exclude={"batch_tokens"}),
            "source": digest([put_tag(tags[name], source) for source in sources]),
        }
        tag = tags[name]
        tagged = [put_tag(tag, source) for source in sources]
        _write_lines(files.source, tagged)
        for path, lines in zip(files.references(len(references)), references, strict=True):
            _write_lines(path, lines)
        if files.are_made_from(made_from):
            say(f"{name}: {len(sources):,} sentences, translated already")
        else:
            translator = translator or load_run(recipe, workspace, device=device)
            say(f"{name}: translating {len(sources):,} sentences")
            _write_lines(files.hypothesis, list(translator.translate(tagged)))
            record = {**made_from, "hypothesis": digest_file(files.hypothesis)}
            write_atomically(files.record, json.dumps(record, indent=2) + "\n")
        yield replace(read_translation(workspace, name), sources=sources)


def read_translation(workspace: Workspace, name: str) -> Translation:
    """Returns a test set with the translation that the workspace holds of it."""
    files = _TranslationFiles(workspace, name)
    return Translation(
        name,
        sources=list(read_lines(files.source)),
        references=[list(read_lines(path)) for path in files.found_references()],
        hypotheses=list(read_lines(files.hypothesis)),
    )


class _TranslationFiles:
    """Where a test set's translation is kept, and what it was made from."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.source = workspace.translations / f"{name}.src"
        self._reference = workspace.translations / f"{name}.ref"
        self.hypothesis = workspace.translations / f"{name}.hyp"
        self.record = workspace.translations / f"{name}.json"

    def references(self, count: int) -> list[Path]:
        """Returns where so many sets of references are kept, and leaves no more of them there."""
        paths = [self._reference, *map(self._further_reference, range(2, count + 1))]
        for path in self.found_references()[count:]:
            path.unlink()
        return paths

    def found_references(self) -> list[Path]:
        """Returns the sets of references that are there, in order."""
        further = map(self._further_reference, itertools.count(2))
        return [self._reference, *itertools.takewhile(Path.is_file, further)]

    def _further_reference(self, number: int) -> Path:
        return self._reference.with_name(f"{self._reference.name}{number}")

    def are_made_from(self, origin: dict[str, Any]) -> bool:
        """Returns whether the hypotheses are whole and were made from this model and text."""
        if not (self.record.is_file() and self.hypothesis.is_file()):
            return False
        return read_json(self.record) == {**origin, "hypothesis": digest_file(self.hypothesis)}


def _read_origins(recipe: Recipe) -> list[str] | None:
    if recipe.evaluation.origins is not None and len(recipe.evaluation.test_sets) != 1:
        raise MtkitError(
            "evaluation.origins tells where the sentences of one test set come from, but there are "
            f"{len(recipe.evaluation.test_sets)}",
            "leave it out, and score that set's translation with --hypothesis",
        )
    return read_origins(recipe.evaluation)


def _read_others(workspace: Workspace, model: str, names: set[str]) -> list[ScoreRow]:
    """Returns the scores that this model has on other test sets than these."""
    if not workspace.scores_file.is_file():
        return []
    saved = read_json(workspace.scores_file)
    if saved.get("model") != model:
        return []
    return [from_table(row) for row in saved["scores"] if row["test_set"] not in names]


def digest_model(folder: Path) -> str:
    """Returns a digest of all that a model's translations depend on.

    Raises:
        MtkitError: There is no model.
    """
    if not folder.is_dir():
        raise MtkitError(
            f"no model in {folder}", "train one first: mtkit train, then mtkit average"
        )
    # The model card takes in the scores, so it can't be among what they are scores of.
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    return digest({str(path.relative_to(folder)): digest_file(path) for path in files})


def _read_test_set(recipe: Recipe, test_set: TestSet) -> tuple[list[str], list[list[str]]]:
    """Returns a test set's sources, without its tag, and its sets of references."""
    if isinstance(test_set, PublishedTestSet):
        sources, references = read_published(
            test_set.sacrebleu,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
        )
        return sources, references
    pairs = list(
        read_pairs(
            test_set.model_copy(update={"tag": ""}),
            phrasebook_split="test",
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
        )
    )
    return [source for source, _ in pairs], [[reference for _, reference in pairs]]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    write_atomically(path, "".join(f"{line}\n" for line in lines))
