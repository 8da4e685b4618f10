"""Recipes found, read, overridden, checked and written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from mtkit.errors import MtkitError, suggest
from mtkit.paths import expand_home
from mtkit.recipe.corpora import PairKeys
from mtkit.recipe.key_errors import find_origin, validate_tables
from mtkit.recipe.objective import LANGUAGE_MODELS
from mtkit.recipe.overrides import apply_override, list_overrides, override_key
from mtkit.recipe.read_toml import beyond_reading, read_toml
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.section import DATA_ROOT
from mtkit.recipe.synthesis import TEACHER_KEYS

_METRICS = {**dict.fromkeys(LANGUAGE_MODELS, "loss"), "classification": "accuracy"}
"""Default of `training.validation.metric` by objective, where it isn't translation's."""
_OF_PARSERS = {
    "tokenizer": {"joint": False},
    "model": {"tied_embeddings": "decoder"},
    "training": {"validation": {"metric": "f1"}},
    # arXiv 1706.03762, section 6.3.
    "inference": {"max_extra_tokens": 300},
    "evaluation": {"metrics": ["parseval"]},
}
PROJECT_RECIPE = Path("mtkit.toml")
"""The recipe of a project's own folder, read where none is named."""


def choose_defaults(tables: dict[str, object]) -> dict[str, object]:
    """Returns a recipe's tables with keys that depend on what is learned, where it lacks them.

    Text in one language is predicted without label smoothing, and scored by its loss or by its
    labels. A parser's sentences and trees have a vocabulary each; it is scored by F1.
    """
    objective = tables.get("objective")
    if isinstance(objective, str) and objective in _METRICS:
        validation = {"metric": _METRICS[objective]}
        return _fill(tables, {"training": {"label_smoothing": 0.0, "validation": validation}})
    data = tables.get("data")
    if isinstance(data, dict) and _has_trees(data):
        language = data.get("source_language")
        of_data = {} if language is None else {"target_language": language}
        return _fill(tables, {"data": of_data, **_OF_PARSERS})
    return tables


def _has_trees(data: Mapping[str, Any]) -> bool:
    train = data.get("train")
    corpora = train if isinstance(train, list) else []
    return any(isinstance(corpus, dict) and "trees" in corpus for corpus in corpora)


def _fill(tables: dict[str, object], defaults: Mapping[str, Any]) -> dict[str, object]:
    """Returns tables with the defaults that they lack; what should be a table and isn't stays."""
    filled = {**tables}
    for key, default in defaults.items():
        found = filled.setdefault(key, default)
        if isinstance(default, dict) and isinstance(found, dict):
            filled[key] = _fill(found, default)
    return filled


def load_recipe(recipe: str | Path = "", overrides: Sequence[str] = ()) -> Recipe:
    """Returns a checked recipe with absolute paths.

    Args:
        recipe: Path of a TOML file, or the name of a shipped recipe; `./mtkit.toml` if empty.
        overrides: Each `section.key=value` with a TOML value (a bare word is a string), or
            `~section.key`, which removes a section or key. Paths start from `data.data_root`, as in
            the file, and that itself from the working directory.

    Raises:
        MtkitError: No such recipe, invalid TOML, an unknown key, or a value out of its range.
    """
    path, folder = _find(recipe)
    tables = read_toml(path)
    for override in overrides:
        apply_override(tables, override)
        if override_key(override) == "data.data_root":
            folder = Path.cwd()
    return check_recipe(tables, str(path), folder, overrides)


def check_recipe(
    tables: dict[str, object], origin: str, folder: Path, overrides: Sequence[str] = ()
) -> Recipe:
    """Returns the recipe that parsed TOML tables describe.

    Args:
        tables: The recipe as nested dictionaries.
        origin: Where they come from, for messages.
        folder: Where a relative `data_root` starts from.
        overrides: What changed the tables since, for messages.

    Raises:
        MtkitError: Every fault found, by key.
    """
    data = tables.get("data")
    given = data.get("data_root", "") if isinstance(data, dict) else ""
    root = (folder / expand_home(str(given))).resolve()
    changed = list_overrides(overrides)
    try:
        filled, context = choose_defaults(tables), {DATA_ROOT: root}
        recipe = validate_tables(Recipe, filled, origin=origin, changed=changed, context=context)
    except (RecursionError, ValueError) as error:
        raise beyond_reading(origin) from error
    for index, corpus in enumerate(recipe.data.train):
        if isinstance(corpus, PairKeys) and corpus.translated_by:
            typed = {
                key
                for key in TEACHER_KEYS
                if find_origin(f"data.train.{index}.{key}", changed, "", reaches_in=False)
            }
            corpus.record_command_line_keys(frozenset(typed))
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"data_root": root})})


def dump_recipe(recipe: Recipe) -> str:
    """Returns the recipe as TOML with every key, defaults included."""
    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True))


def shipped_recipes() -> dict[str, Path]:
    """Returns the path of each recipe that ships with mtkit, by name."""
    package = Path(__file__).parents[1]
    # In a wheel the recipes are inside the package, in a checkout next to it.
    for folder in (package / "recipes", package.parent / "recipes"):
        paths = sorted(folder.glob("*/*.toml"))
        if paths:
            return {path.stem: path for path in paths}
    return {}


def _find(recipe: str | Path) -> tuple[Path, Path]:
    """Returns a recipe's path and the folder its relative paths start from."""
    if not str(recipe):
        if not PROJECT_RECIPE.is_file():
            raise MtkitError(
                f"no recipe given, and no {PROJECT_RECIPE} in {Path.cwd()}",
                "create one with `mtkit init own-corpus`, or name one with --recipe; a command "
                "with --model FOLDER needs none",
            )
        recipe = PROJECT_RECIPE
    path = expand_home(recipe)
    if path.is_file():
        return path, path.resolve().parent
    shipped = shipped_recipes()
    if str(recipe) in shipped:
        return shipped[str(recipe)], Path.cwd()
    raise MtkitError(
        f"no recipe '{recipe}': neither a file nor one that ships with mtkit"
        + suggest(str(recipe), shipped),
        "shipped recipes: " + ", ".join(shipped),
    )
