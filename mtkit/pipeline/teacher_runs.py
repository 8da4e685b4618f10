"""Runs of other recipes whose models translate a recipe's corpora; `mtkit run` does them first."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.corpora import PairKeys
from mtkit.recipe.corpus_files import NUMBERED_FORMATS, STRING_PAIRS, format_of
from mtkit.recipe.data import Data
from mtkit.recipe.loading import check_recipe
from mtkit.recipe.synthesis import PAIRS, REVERSE
from mtkit.workspace import Workspace

_OF_ONE_DIRECTION = ("guided_alignment", "stages")
"""Keys of `training` that don't suit the other direction."""
_KEPT_KEYS = ("tag", "weight", "max_pairs", "skip")
"""Keys of a corpus that are kept when the other direction learns from it."""
_OTHER_SIDE = {"source": "target", "target": "source"}


@dataclass(frozen=True)
class Run:
    """A recipe and its workspace; runs derived from it are next to it."""

    recipe: Recipe
    workspace: Workspace

    def find_teacher(self, name: str, rounds: int = 1) -> "Run | None":
        """Returns the run that a translator's name means; None for an existing model.

        Args:
            name: As in `translated_by`.
            rounds: How often the reverse translator is trained.
        """
        if name == PAIRS:
            return self._derive(PAIRS, _leave_pairs(self._dump()))
        if name == REVERSE:
            suffix = REVERSE if rounds == 1 else f"{REVERSE}-{rounds}"
            return self._derive(suffix, self._reverse(rounds))
        if name.endswith(".toml") and not is_llm_recipe(Path(name)):
            if not Path(name).is_file():
                raise MtkitError(
                    f"translated_by: {name}: no such recipe",
                    "correct the path; paths are relative to data.data_root",
                )
            found = load_recipe(Path(name))
            return Run(found, Workspace(self.workspace.root.parent / found.name))
        return None

    def list_teachers(self, ahead: tuple[Path, ...] = ()) -> "Iterator[Run]":
        """Yields the runs whose models its corpora need, in order; some come several times.

        Raises:
            MtkitError: A recipe needs its own model.
        """
        ahead = (*ahead, self.workspace.root.absolute())
        for corpus in self.recipe.data.train:
            if not isinstance(corpus, PairKeys):
                continue
            for name in filter(None, (*corpus.translated_by, corpus.synthesis.checked_by)):
                teacher = self.find_teacher(name, corpus.synthesis.rounds)
                if teacher is None:
                    continue
                if teacher.workspace.root.absolute() in ahead:
                    names = " -> ".join(path.name for path in (*ahead, teacher.workspace.root))
                    raise MtkitError(
                        f"translated_by: {name} needs itself, or has the name of a recipe that "
                        f"needs it: {names}",
                        "rename it, or train one of them without the other; translated_by = "
                        '"reverse" with synthesis.rounds trains two alternately',
                    )
                if name == REVERSE:
                    yield from self._list_rounds(corpus.synthesis.rounds)
                else:
                    yield from teacher.list_teachers(ahead)
                yield teacher

    def collect_teachers(self) -> "list[Run]":
        """Returns the runs whose models its corpora need, in order, each once.

        Raises:
            MtkitError: A recipe needs its own model, or two recipes have one workspace.
        """
        found: dict[Path, Run] = {}
        for each in self.list_teachers():
            known = found.setdefault(each.workspace.root, each)
            if known._dump() != each._dump():
                raise MtkitError(
                    f"translated_by: two recipes are named {each.recipe.name}, so both would be "
                    f"trained in {each.workspace.root}",
                    "rename one of them",
                )
        return list(found.values())

    def _list_rounds(self, rounds: int) -> "Iterator[Run]":
        """Yields the runs before the last reverse one, in order."""
        for number in range(1, rounds):
            yield self._derive_teacher(REVERSE, number)
            forward = self._find_round(number)
            if _uses_pairs(self.recipe.data):
                yield self._derive_teacher(PAIRS)
            yield forward

    def _derive_teacher(self, name: str, rounds: int = 1) -> "Run":
        teacher = self.find_teacher(name, rounds)
        assert teacher is not None
        return teacher

    def _dump(self) -> dict[str, Any]:
        return self.recipe.model_dump(mode="json", exclude_none=True)

    def _derive(self, suffix: str, tables: dict[str, Any]) -> "Run":
        """Returns the run of changed tables, next to this one."""
        name = self.recipe.name
        tables["name"] = f"{name}-{suffix}"
        root = self.workspace.root.absolute()
        made = check_recipe(tables, f"{name}, made {suffix} by translated_by", Path.cwd())
        for corpus, origin in zip(made.data.train, self.recipe.data.train, strict=False):
            if isinstance(corpus, PairKeys) and isinstance(origin, PairKeys):
                # A round has the same corpora.
                corpus.record_command_line_keys(origin.command_line_keys)
        return Run(made, Workspace(root.with_name(f"{root.name}-{suffix}")))

    def _find_round(self, number: int) -> "Run":
        """Returns the run by the reverse translator of a round."""

        def name_model(name: str) -> str:
            if name not in (REVERSE, PAIRS):
                return name
            return str(self._derive_teacher(name, number).workspace.model)

        tables = self._dump()
        for corpus in tables["data"]["train"]:
            if corpus.get("translated_by"):
                synthesis = corpus["synthesis"]
                corpus["translated_by"] = list(map(name_model, corpus["translated_by"]))
                synthesis |= {"checked_by": name_model(synthesis["checked_by"]), "rounds": 1}
        return self._derive(f"round-{number}", tables)

    def _reverse(self, rounds: int) -> dict[str, Any]:
        """Returns its tables in the other direction, without what a translator completes.

        From the second round on it has the corpora of the source language, translated by the
        forward translator of the round before.
        """
        for key in ("start_from", "lora"):
            if getattr(self.recipe.training, key) is not None:
                raise MtkitError(
                    f'translated_by = "{REVERSE}" trains from random weights, and this recipe has '
                    f"training.{key}",
                    "train a translator in the other direction from a recipe of its own, and name "
                    "its folder or its recipe",
                )
        tables = self._dump()
        data, cleaning = tables["data"], tables["data"]["cleaning"]
        texts = [
            corpus for corpus in data["train"] if "source" in corpus and "target" not in corpus
        ]
        _leave_pairs(tables)
        languages = data["source_language"], data["target_language"]
        data["target_language"], data["source_language"] = languages
        tests = tables["evaluation"].get("test_sets", [])
        tests[:] = [each for each in tests if "builtin" not in each and not _has_strings(each)]
        for corpus in (*data["train"], data["dev"], *tests):
            _swap_sides(corpus)
        if rounds > 1:
            if not texts:
                raise MtkitError(
                    f"data.train: synthesis.rounds = {rounds} needs text of the source language "
                    "for the reverse translator",
                    f'add a corpus with `source` alone and translated_by = "{PAIRS}"',
                )
            model = str(self._find_round(rounds - 1).workspace.model)
            data["train"] += [
                {"target": text["source"], "translated_by": [model]}
                | {key: text[key] for key in _KEPT_KEYS if key in text}
                for text in texts
            ]
        for key in _OF_ONE_DIRECTION:
            tables["training"].pop(key, None)
        data.pop("augment", None)
        data["word_aligner"] = False
        cleaning.pop("selection", None)
        script, duplicates = cleaning["script"], cleaning["duplicates"]
        script["source"], script["target"] = script["target"], script["source"]
        duplicates["by"] = _OTHER_SIDE.get(duplicates["by"], duplicates["by"])
        for key in ("fusion", "glossary", "quality"):
            tables["inference"].pop(key, None)
        pretrained = tables["tokenizer"].get("pretrained", {})
        if pretrained.get("target"):
            pretrained["source"], pretrained["target"] = pretrained["target"], pretrained["source"]
        return tables


def _uses_pairs(data: Data) -> bool:
    return any(
        PAIRS in (*corpus.translated_by, corpus.synthesis.checked_by)
        for corpus in data.train
        if isinstance(corpus, PairKeys)
    )


def is_llm_recipe(path: Path) -> bool:
    """Checks whether a TOML file describes a large language model, not a recipe."""
    try:
        return "url" in tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError):
        return False


def _leave_pairs(tables: dict[str, Any]) -> dict[str, Any]:
    """Keeps only the corpora whose pairs need no translator."""
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


def _has_strings(corpus: dict[str, Any]) -> bool:
    """Checks that a corpus is a file of strings, which translates one way."""
    return "path" in corpus and format_of(Path(corpus["path"])) in STRING_PAIRS


def _swap_sides(corpus: dict[str, Any]) -> None:
    """Swaps the sides of a corpus's table; a tag, which is for sources, is removed."""
    corpus.pop("alignments", None)
    corpus.pop("tag", None)
    if _has_strings(corpus) or "builtin" in corpus:
        raise MtkitError(
            f"data: {corpus.get('path', corpus.get('builtin'))} can't be read in the other "
            f'direction, as translated_by = "{REVERSE}" needs it',
            "make a table of it with `mtkit split`, or name a model folder",
        )
    if "source" in corpus and "target" in corpus:
        corpus["source"], corpus["target"] = corpus["target"], corpus["source"]
        return
    columns = corpus.get("source_column"), corpus.get("target_column")
    if "path" in corpus and format_of(Path(corpus["path"])) in NUMBERED_FORMATS:
        columns = columns[0] or 1, columns[1] or 2
    if any(columns):
        corpus["target_column"], corpus["source_column"] = columns
