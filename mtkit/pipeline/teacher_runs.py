"""Runs of other recipes whose models translate a recipe's corpora; `mtkit run` does them first."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.corpora import PairKeys
from mtkit.recipe.corpus_files import FORMATS, NUMBERED_FORMATS, STRING_PAIRS, ending_of
from mtkit.recipe.loading import check_recipe
from mtkit.recipe.synthesis import PAIRS, REVERSE
from mtkit.workspace import Workspace

_ROUND = re.compile(r"-round-\d+$")
_OF_ONE_DIRECTION = ("guided_alignment", "start_from", "lora", "stages")
"""Keys of `training` that don't suit the other direction."""


@dataclass(frozen=True)
class TeacherRun:
    """A recipe whose model translates corpora of another, and its workspace."""

    recipe: Recipe
    workspace: Workspace


def find_run(name: str, recipe: Recipe, workspace: Workspace, rounds: int = 1) -> TeacherRun | None:
    """Returns the run that a translator's name in a recipe means; None for a model folder."""
    match name:
        case "pairs":
            return _derive(recipe, workspace, "pairs", _leave_pairs(_dump(recipe)))
        case "reverse":
            suffix = "reverse" if rounds == 1 else f"reverse-{rounds}"
            return _derive(recipe, workspace, suffix, _reverse(recipe, workspace, rounds))
        case _ if name.endswith(".toml") and not is_llm_recipe(Path(name)):
            found = load_recipe(Path(name))
            return TeacherRun(found, Workspace(workspace.root.parent / found.name))
    return None


def list_runs(
    recipe: Recipe, workspace: Workspace, ahead: tuple[Path, ...] = ()
) -> Iterator[TeacherRun]:
    """Yields the runs whose models a recipe's corpora need, in order; some come several times.

    Raises:
        MtkitError: A recipe needs its own model.
    """
    ahead = (*ahead, workspace.root.absolute())
    for corpus in recipe.data.train:
        if not isinstance(corpus, PairKeys):
            continue
        synthesis = corpus.synthesis
        for name in filter(None, (*corpus.translated_by, synthesis.checked_by)):
            run = find_run(name, recipe, workspace, synthesis.rounds)
            if run is None:
                continue
            if run.workspace.root.absolute() in ahead:
                names = " -> ".join(path.name for path in (*ahead, run.workspace.root))
                raise MtkitError(
                    f"translated_by: {name} needs itself: {names}",
                    "train one of them without the other, or use synthesis.rounds",
                )
            if name == REVERSE and synthesis.rounds > 1:
                before = _find_round(recipe, workspace, synthesis.rounds - 1)
                yield from list_runs(before.recipe, before.workspace, ahead)
                yield before
            yield from list_runs(run.recipe, run.workspace, ahead)
            yield run


def is_llm_recipe(path: Path) -> bool:
    """Checks whether a TOML file describes a large language model, not a recipe."""
    try:
        return "url" in tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError):
        return False


def _dump(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude_none=True)


def _derive(
    recipe: Recipe, workspace: Workspace, suffix: str, tables: dict[str, Any]
) -> TeacherRun:
    """Returns the run of changed tables of a recipe, beside its own."""
    base = _ROUND.sub("", recipe.name)
    tables["name"] = f"{base}-{suffix}"
    root = workspace.root.absolute()
    made = check_recipe(tables, f"{base} ({suffix})", Path.cwd())
    return TeacherRun(made, Workspace(root.with_name(f"{_ROUND.sub('', root.name)}-{suffix}")))


def _leave_pairs(tables: dict[str, Any]) -> dict[str, Any]:
    """Leaves the corpora that are pairs by themselves."""
    train = tables["data"]["train"]
    tables["data"]["train"] = [corpus for corpus in train if not corpus.get("translated_by")]
    tables["training"].pop("stages", None)
    if not tables["data"]["train"]:
        raise MtkitError(
            f'data.train: translated_by = "{REVERSE}" and "{PAIRS}" train on pairs, and each '
            "corpus names a translator",
            "add a corpus of pairs, or name a model folder",
        )
    return tables


def _find_round(recipe: Recipe, workspace: Workspace, rounds: int) -> TeacherRun:
    """Returns the run of a recipe with fewer rounds."""
    tables = _dump(recipe)
    for corpus in tables["data"]["train"]:
        if corpus.get("translated_by") == [REVERSE]:
            corpus["synthesis"]["rounds"] = min(rounds, corpus["synthesis"]["rounds"])
    return _derive(recipe, workspace, f"round-{rounds}", tables)


def _reverse(recipe: Recipe, workspace: Workspace, rounds: int) -> dict[str, Any]:
    """Returns a recipe's tables in the other direction, without what a translator completes.

    From the second round on it has the corpora of the source language, translated by the forward
    translator of the round before.
    """
    tables = _dump(recipe)
    data, training = tables["data"], tables["training"]
    texts = [corpus for corpus in data["train"] if _is_source_alone(corpus)]
    _leave_pairs(tables)
    languages = data["source_language"], data["target_language"]
    data["target_language"], data["source_language"] = languages
    tests = tables["evaluation"].get("test_sets", [])
    for corpus in (*data["train"], data["dev"], *tests):
        _swap_sides(corpus)
    if rounds > 1:
        if not texts:
            raise MtkitError(
                f"data.train: synthesis.rounds = {rounds} needs text of the source language for "
                "the reverse translator",
                f'add a corpus with `source` alone and translated_by = "{PAIRS}"',
            )
        model = str(_find_round(recipe, workspace, rounds - 1).workspace.model)
        for corpus in texts:
            text = {"target": corpus["source"], "translated_by": [model]}
            keys = ("tag", "weight", "max_pairs", "skip")
            data["train"].append(text | {key: corpus[key] for key in keys if key in corpus})
    for key in _OF_ONE_DIRECTION:
        training.pop(key, None)
    data.pop("augment", None)
    data["word_aligner"] = False
    data["cleaning"].pop("selection", None)
    script = data["cleaning"]["script"]
    script["source"], script["target"] = script["target"], script["source"]
    for key in ("fusion", "glossary"):
        tables["inference"].pop(key, None)
    pretrained = tables["tokenizer"].get("pretrained", {})
    if pretrained.get("target"):
        pretrained["source"], pretrained["target"] = pretrained["target"], pretrained["source"]
    return tables


def _is_source_alone(corpus: dict[str, Any]) -> bool:
    return "source" in corpus and "target" not in corpus


def _swap_sides(corpus: dict[str, Any]) -> None:
    """Swaps the sides of a corpus's table."""
    corpus.pop("alignments", None)
    if "source" in corpus and "target" in corpus:
        corpus["source"], corpus["target"] = corpus["target"], corpus["source"]
        return
    columns = corpus.get("source_column"), corpus.get("target_column")
    kind = FORMATS.get(ending_of(Path(corpus["path"]))) if "path" in corpus else ""
    if kind in NUMBERED_FORMATS:
        columns = columns[0] or 1, columns[1] or 2
    elif kind in STRING_PAIRS:
        raise MtkitError(
            f"data: {corpus['path']} can't be read in the other direction, as "
            f'translated_by = "{REVERSE}" needs it',
            "make a table of it: mtkit split",
        )
    if any(columns):
        corpus["target_column"], corpus["source_column"] = columns
