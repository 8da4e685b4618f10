"""Recipes found, read, overridden, checked and written."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ValidationError

from mtkit.errors import MtkitError, suggest
from mtkit.recipe.recipe import Recipe

PROJECT_RECIPE = Path("mtkit.toml")
"""The recipe of a project's own folder, read where none is named."""

Entry = TypeVar("Entry", bound=BaseModel)


def load_recipe(recipe: str | Path = "", overrides: Sequence[str] = ()) -> Recipe:
    """Returns a checked recipe with absolute paths.

    Args:
        recipe: Path of a TOML file, or the name of a shipped recipe; `./mtkit.toml` where empty.
        overrides: Each `section.key=value` with a TOML value (a bare word is a string), or
            `~section.key`, which removes a section or key.

    Raises:
        MtkitError: No such recipe, no TOML, an unknown key, or a value out of its range.
    """
    path, folder = _find(recipe)
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise MtkitError(f"{path}: byte {error.start} is no UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise MtkitError(f"{path}: not TOML: {error}", "strings need quotes in TOML") from error
    for override in overrides:
        _override(tables, override)
    return check_recipe(tables, str(path), folder)


def check_recipe(tables: dict[str, Any], origin: str, folder: Path) -> Recipe:
    """Returns the recipe that parsed TOML tables describe.

    Args:
        tables: The recipe as nested dictionaries.
        origin: Where they come from, for messages.
        folder: Where a relative `data_root` starts from.

    Raises:
        MtkitError: Every fault found, by key.
    """
    try:
        # Strict JSON input keeps "5" from passing as 5, yet lets text be a path.
        recipe = Recipe.model_validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise _explain(error, origin, tables) from error
    return _with_absolute_paths(recipe, folder)


def dump_recipe(recipe: Recipe) -> str:
    """Returns the recipe as TOML with every key, defaults included."""
    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True))


def shipped_recipes() -> dict[str, Path]:
    """Returns the path of each recipe that ships with mtkit, by name."""
    package = Path(__file__).parents[1]
    # In a wheel the recipes lie inside the package, in a checkout beside it.
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
                "write one with `mtkit init phrasebook-en-de`, or name one with --recipe",
            )
        recipe = PROJECT_RECIPE
    path = Path(recipe).expanduser()
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


def _override(tables: dict[str, Any], override: str) -> None:
    """Applies one `--set` to the tables."""
    removes = override.startswith("~")
    key, equals, text = override.removeprefix("~").partition("=")
    steps = [step.strip() for step in key.split(".")]
    if removes == bool(equals) or not all(steps):
        raise MtkitError(
            f"--set {override}: expected section.key=value, or ~section.key to remove it",
            "for example: --set training.max_steps=100",
        )
    node: Any = tables
    for step in steps[:-1]:
        node = _descend(node, step, override)
    last = steps[-1]
    if isinstance(node, list):
        index = _index(node, last, override)
        if removes:
            del node[index]
        else:
            node[index] = _value(text)
    elif not isinstance(node, dict):
        raise MtkitError(f"--set {override}: '{'.'.join(steps[:-1])}' is a value, not a section")
    elif removes:
        node.pop(last, None)
    else:
        node[last] = _value(text)


def _descend(node: Any, step: str, override: str) -> Any:
    if isinstance(node, list):
        return node[_index(node, step, override)]
    if not isinstance(node, dict):
        raise MtkitError(f"--set {override}: '{step}' lies inside a value, not a section")
    return node.setdefault(step, {})


def _index(node: list[Any], step: str, override: str) -> int:
    if not step.isdecimal() or int(step) >= len(node):
        raise MtkitError(
            f"--set {override}: '{step}' should be a place in a list of {len(node)}, from 0"
        )
    return int(step)


def _value(text: str) -> Any:
    """Returns text as the TOML value it spells, or as a string where it spells none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _with_absolute_paths(recipe: Recipe, folder: Path) -> Recipe:
    root = (folder / recipe.data.data_root.expanduser()).resolve()

    def rooted(corpus: Entry) -> Entry:
        paths = {
            side: root / path.expanduser()
            for side in ("source", "target")
            if isinstance(path := getattr(corpus, side, None), Path)
        }
        return corpus.model_copy(update=paths)

    data = recipe.data.model_copy(
        update={
            "data_root": root,
            "train": tuple(rooted(corpus) for corpus in recipe.data.train),
            "dev": rooted(recipe.data.dev),
        }
    )
    test_sets = tuple(rooted(test_set) for test_set in recipe.evaluation.test_sets)
    evaluation = recipe.evaluation.model_copy(update={"test_sets": test_sets})
    return recipe.model_copy(update={"data": data, "evaluation": evaluation})


def _explain(error: ValidationError, origin: str, tables: dict[str, Any]) -> MtkitError:
    """Returns one error that names every faulty key, with a suggestion for an unknown one."""
    lines = []
    for fault in error.errors():
        steps = _path_in_tables(fault["loc"], tables)
        key = ".".join(steps)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown key '{steps[-1]}'" + suggest(steps[-1], _known_keys(fault["loc"]))
        elif fault["type"] == "missing":
            message = "this key is missing"
        elif fault["type"] not in ("value_error",) and not isinstance(fault["input"], dict | list):
            message += f", found {fault['input']!r}"
        lines.append(f"{key}: {message}" if key else message)
    return MtkitError(
        f"{origin}: " + f"\n  {origin}: ".join(lines),
        "docs/reference/recipe.md lists every key; --set section.key=value overrides one",
    )


def _path_in_tables(location: tuple[int | str, ...], tables: dict[str, Any]) -> list[str]:
    """Returns a fault's location less the union tags that pydantic puts into it."""
    steps: list[str] = []
    node: Any = tables
    for index, step in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(node, list) and isinstance(step, int) and step < len(node):
            node = node[step]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        elif not is_last:
            continue
        steps.append(str(step))
    return steps


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """Returns the keys of the section that an unknown key was found in."""
    definition: Any = Recipe.model_json_schema()
    definitions = definition["$defs"]
    sections = [definition]
    for step in location[:-1]:
        children = [child for section in sections for child in _children(section, step)]
        sections = [
            definitions[child["$ref"].rsplit("/", 1)[1]] if "$ref" in child else child
            for child in children
        ] or sections
    return sorted({key for section in sections for key in section.get("properties", {})})


def _children(section: dict[str, Any], step: int | str) -> list[dict[str, Any]]:
    """Returns the schemas that one step into a section's schema can lead to."""
    child = section.get("items") if isinstance(step, int) else section.get("properties", {}).get(step)
    if child is None:
        return []
    return [option for key in ("oneOf", "anyOf") for option in child.get(key, [])] or [child]
