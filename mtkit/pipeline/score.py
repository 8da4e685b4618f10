"""The front door of `mtkit score`: a recipe's test sets translated and scored."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.console import say
from mtkit.data.sources.corpora import read_pairs
from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError
from mtkit.evaluation.report import ScoreRow, as_cells, as_tables, list_rows
from mtkit.evaluation.scores import score_corpus
from mtkit.inference.model_folder import write_scores
from mtkit.inference.translate import Translator
from mtkit.pipeline.translate import load_run
from mtkit.recipe import Recipe
from mtkit.recipe.test_sets import TestSet
from mtkit.workspace import Workspace, digest, digest_file, read_json, write_atomically


@dataclass(frozen=True)
class Translation:
    """A test set with the model's translation of it, sentence by sentence.

    Attributes:
        name: The test set's name.
        sources: What was translated.
        references: The translations that people made.
        hypotheses: The translations that the model made.
    """

    name: str
    sources: list[str]
    references: list[str]
    hypotheses: list[str]


def score(recipe: Recipe, workspace: Workspace, *, device: str = "auto") -> list[ScoreRow]:
    """Leaves translations and scores of the recipe's test sets in the workspace.

    The scores stand in `scores.json`, in the manifest and in the model's card. A translation that
    the same model made of the same text in the same way is taken as it is.

    Returns:
        A row per test set and metric.

    Raises:
        MtkitError: No test sets, no model, or corpora that can't be read.
    """
    rows = []
    for translation in translate_test_sets(recipe, workspace, device=device):
        scores = score_corpus(translation.hypotheses, [translation.references], recipe.evaluation)
        rows += list_rows(translation.name, scores, len(translation.hypotheses))
    tables = as_tables(rows)
    facts = {"model": digest_model(workspace.model), "scores": tables}
    write_atomically(workspace.scores_file, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    workspace.record("score", facts)
    write_scores(workspace.model, as_cells(rows))
    return rows


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
    pairs_by_name = {
        test_set.name: _read_test_set(recipe, test_set) for test_set in recipe.evaluation.test_sets
    }
    translator: Translator | None = None
    for name, (sources, references) in pairs_by_name.items():
        files = _TranslationFiles(workspace, name)
        made_from = {
            "model": model,
            # How many are translated together changes speed alone.
            "inference": recipe.inference.model_dump(mode="json", exclude={"batch_tokens"}),
            "source": digest(sources),
        }
        _write_lines(files.source, sources)
        _write_lines(files.reference, references)
        if files.are_made_from(made_from):
            say(f"{name}: {len(sources):,} sentences, translated already")
        else:
            translator = translator or load_run(recipe, workspace, device=device)
            say(f"{name}: translating {len(sources):,} sentences")
            _write_lines(files.hypothesis, list(translator.translate(sources)))
            record = {**made_from, "hypothesis": digest_file(files.hypothesis)}
            write_atomically(files.record, json.dumps(record, indent=2) + "\n")
        yield read_translation(workspace, name)


def read_translation(workspace: Workspace, name: str) -> Translation:
    """Returns a test set with the translation that the workspace holds of it."""
    files = _TranslationFiles(workspace, name)
    return Translation(
        name,
        sources=list(read_lines(files.source)),
        references=list(read_lines(files.reference)),
        hypotheses=list(read_lines(files.hypothesis)),
    )


class _TranslationFiles:
    """Where a test set's translation is kept, and what it was made from."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.source = workspace.translations / f"{name}.src"
        self.reference = workspace.translations / f"{name}.ref"
        self.hypothesis = workspace.translations / f"{name}.hyp"
        self.record = workspace.translations / f"{name}.json"

    def are_made_from(self, origin: dict[str, Any]) -> bool:
        """Returns whether the hypotheses are whole and were made from this model and text."""
        if not (self.record.is_file() and self.hypothesis.is_file()):
            return False
        return read_json(self.record) == {**origin, "hypothesis": digest_file(self.hypothesis)}


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


def _read_test_set(recipe: Recipe, test_set: TestSet) -> tuple[list[str], list[str]]:
    pairs = list(
        read_pairs(
            test_set,
            phrasebook_split="test",
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
        )
    )
    return [source for source, _ in pairs], [reference for _, reference in pairs]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    write_atomically(path, "".join(f"{line}\n" for line in lines))
