"""Recipes found, read, overridden, checked and written."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ValidationError

from mtkit.errors import MtkitError, suggest
from mtkit.recipe.corpora import HubCorpus
from mtkit.recipe.defaults import choose_defaults
from mtkit.recipe.faults import explain, find_origin
from mtkit.recipe.overrides import apply_override, list_changes, override_key
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.training import START_KEYS

PROJECT_RECIPE = Path("mtkit.toml")
"""The recipe of a project's own folder, read where none is named."""

_MAX_BYTES = 1 << 20
_START_TABLES = ("training", "training.start_from")
_TYPED_STARTS = (*_START_TABLES, *(f"training.start_from.{key}" for key in START_KEYS))

Entry = TypeVar("Entry", bound=BaseModel)


def load_recipe(recipe: str | Path = "", overrides: Sequence[str] = ()) -> Recipe:
    """Returns a checked recipe with absolute paths.

    Args:
        recipe: Path of a TOML file, or the name of a shipped recipe; `./mtkit.toml` where empty.
        overrides: Each `section.key=value` with a TOML value (a bare word is a string), or
            `~section.key`, which removes a section or key.

    Raises:
        MtkitError: No such recipe, invalid TOML, an unknown key, or a value out of its range.
    """
    path, folder = _find(recipe)
    if path.stat().st_size > _MAX_BYTES:
        raise MtkitError(f"{path}: {path.stat().st_size:,} bytes is too large for a recipe")
    try:
        # Editors on Windows put a byte-order mark in front.
        tables = tomllib.loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise MtkitError(
            f"{path}:{line}: byte 0x{error.object[error.start]:02x} is invalid UTF-8",
            "save the recipe as UTF-8",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise MtkitError(f"{path}: invalid TOML: {error}", _explain_toml(str(error))) from error
    except (RecursionError, ValueError) as error:
        raise _beyond_reading(str(path)) from error
    for override in overrides:
        apply_override(tables, override)
        # What is typed in a shell starts from the shell's folder.
        if override_key(override) == "data.data_root":
            folder = Path.cwd()
        elif override_key(override) in _TYPED_STARTS:
            _start_from_working_directory(tables)
    return check_recipe(tables, str(path), folder, overrides)


def _explain_toml(fault: str) -> str:
    if "twice" in fault or "overwrite" in fault:
        return "a section or key is defined twice: change the first and remove the second"
    if "Unicode scalar value" in fault:
        return "if this is a path with invalid UTF-8, rename it, or link to it under another name"
    return "strings need quotes in TOML"


def check_recipe(
    tables: dict[str, Any], origin: str, folder: Path, overrides: Sequence[str] = ()
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
    try:
        # Strict JSON input keeps "5" from passing as 5, yet lets text be a path.
        text = json.dumps(choose_defaults(tables), default=str)
    except (RecursionError, ValueError) as error:
        raise _beyond_reading(origin) from error
    try:
        recipe = Recipe.model_validate_json(text)
    except ValidationError as error:
        raise explain(
            error, origin=origin, tables=tables, section=Recipe, changed=list_changes(overrides)
        ) from error
    _note_keys_of_file(recipe, overrides)
    return _with_absolute_paths(recipe, folder)


def _note_keys_of_file(recipe: Recipe, overrides: Sequence[str]) -> None:
    """Notes in COMET's section the keys that nobody typed: they may be a stranger's."""
    comet = recipe.evaluation.comet
    if comet is not None:
        changed = list_changes(overrides)
        untyped = {
            key
            for key in comet.model_fields_set
            if not find_origin(f"evaluation.comet.{key}", changed, "", reaches_in=False)
        }
        comet.note_keys_of_file(frozenset(untyped))


def _beyond_reading(origin: str) -> MtkitError:
    return MtkitError(f"{origin}: lists nested too deeply, or a number with too many digits")


def _start_from_working_directory(tables: dict[str, Any]) -> None:
    """Makes the paths of the models that training starts from absolute, if there are any."""
    node: Any = tables
    for step in ("training", "start_from"):
        node = node.get(step) if isinstance(node, dict) else None
    for key in START_KEYS:
        if isinstance(node, dict) and isinstance(node.get(key), str):
            node[key] = str(Path.cwd() / Path(node[key]).expanduser())


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
                "create one with `mtkit init phrasebook-en-de`, or name one with --recipe",
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


def _with_absolute_paths(recipe: Recipe, folder: Path) -> Recipe:
    root = (folder / recipe.data.data_root.expanduser()).resolve()

    def rooted(corpus: Entry) -> Entry:
        paths: dict[str, Any] = {
            key: root / path.expanduser()
            for key in ("source", "target", "path", "text", "trees", "alignments")
            if isinstance(path := getattr(corpus, key, None), Path)
        }
        if isinstance(corpus, HubCorpus):
            folder_of_files = root / Path(corpus.dataset).expanduser()
            if folder_of_files.is_dir():
                paths["dataset"] = str(folder_of_files)
        return corpus.model_copy(update=paths)

    cleaning = recipe.data.cleaning
    if cleaning.selection is not None:
        model_folders = {
            key: root / path.expanduser()
            for key in type(cleaning.selection).model_fields
            if isinstance(path := getattr(cleaning.selection, key), Path)
        }
        selection = cleaning.selection.model_copy(update=model_folders)
        cleaning = cleaning.model_copy(update={"selection": selection})
    augment = recipe.data.augment
    if augment is not None and augment.terms is not None and augment.terms.dictionary is not None:
        path = root / augment.terms.dictionary.expanduser()
        terms = augment.terms.model_copy(update={"dictionary": path})
        augment = augment.model_copy(update={"terms": terms})
    data = recipe.data.model_copy(
        update={
            "augment": augment,
            "data_root": root,
            "cleaning": cleaning,
            "train": tuple(rooted(corpus) for corpus in recipe.data.train),
            "dev": rooted(recipe.data.dev),
        }
    )
    test_sets = tuple(rooted(test_set) for test_set in recipe.evaluation.test_sets)
    files = {
        key: root / path.expanduser()
        for key in ("origins", "training_text")
        if (path := getattr(recipe.evaluation, key)) is not None
    }
    evaluation = recipe.evaluation.model_copy(update={"test_sets": test_sets, **files})
    tokenizer = recipe.tokenizer
    if tokenizer.pretrained is not None:
        tokenizer = tokenizer.model_copy(update={"pretrained": rooted(tokenizer.pretrained)})
    training = recipe.training
    if training.start_from is not None:
        folders = training.start_from.folders
        start_from = training.start_from.model_copy(
            update={key: root / path.expanduser() for key, path in folders.items()}
        )
        training = training.model_copy(update={"start_from": start_from})
    inference = recipe.inference
    if inference.fusion is not None:
        model = root / inference.fusion.model.expanduser()
        fusion = inference.fusion.model_copy(update={"model": model})
        inference = inference.model_copy(update={"fusion": fusion})
    if inference.glossary is not None and inference.glossary.path is not None:
        path = root / inference.glossary.path.expanduser()
        glossary = inference.glossary.model_copy(update={"path": path})
        inference = inference.model_copy(update={"glossary": glossary})
    return recipe.model_copy(
        update={
            "data": data,
            "tokenizer": tokenizer,
            "training": training,
            "inference": inference,
            "evaluation": evaluation,
        }
    )
