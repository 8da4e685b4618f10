"""Entry point of `mtkit init`."""

import re
import tomllib
from itertools import takewhile
from pathlib import Path

import tomli_w

from mtkit.errors import MtkitError, suggest
from mtkit.files import write_atomically
from mtkit.recipe import PROJECT_RECIPE, load_recipe, shipped_recipes
from mtkit.recipe.loading import check_recipe
from mtkit.recipe.tables import relative_to_root
from mtkit.workspace import Workspace

_PREFACE = """\
# Copied from the shipped recipe {name}; change what you like. In this folder:
#   mtkit run                              all steps: prepare, train, average, score
#   mtkit prepare, train, average, score   the same, one step at a time
#   mtkit translate < input.txt            translate with the trained model
# A relative data_root is relative to this file's folder.

"""


_STUDENT = """\
# A student of {name}: it learns from the teacher's translations of the same text. In this folder:
#   mtkit prepare --check    translate some lines, and estimate the time of all
#   mtkit run                translate, train, average, score
# More text in the source language makes a better student:
#   [[data.train]]
#   source = "more.{language}"
#   translated_by = "{model}"
# Faster still: mtkit translate --set inference.precision=int8

"""
OWN_CORPUS = "own-corpus"
"""The recipe for text of one's own, which comes first."""


def describe_recipes() -> dict[str, str]:
    """Returns the first sentence of each shipped recipe, by its name."""
    shipped = sorted(shipped_recipes().items(), key=lambda each: (each[0] != OWN_CORPUS, each[0]))
    return {name: _read_sentence(path) for name, path in shipped}


def _read_sentence(path: Path) -> str:
    comment = takewhile(lambda line: line.startswith("#"), path.read_text("utf-8").splitlines())
    text = " ".join(line.removeprefix("#").strip() for line in comment)
    # A full stop inside a number or a name ends no sentence.
    sentence = re.split(r"(?<=[a-z0-9)])[.:](?= [A-Z]|$)", text, maxsplit=1)[0]
    return f"{sentence}."


def init(recipe: str, folder: Path | None = None) -> Path:
    """Writes a shipped recipe to a folder as `mtkit.toml`, and returns its path."""
    shipped = shipped_recipes()
    if recipe not in shipped:
        raise MtkitError(
            f"no shipped recipe named '{recipe}'" + suggest(recipe, shipped),
            "shipped recipes: " + ", ".join(shipped),
        )
    return _write(_PREFACE.format(name=recipe) + shipped[recipe].read_text("utf-8"), folder)


def init_student(teacher: Path, folder: Path | None = None) -> Path:
    """Writes the recipe of a small, fast student of a run, and returns its path.

    It learns from the teacher's translations of the sources that the teacher learned from. Its
    encoder is deeper than the teacher's, its decoder has one layer (arXiv 2006.10369), and it
    searches greedily.

    Args:
        teacher: The workspace of a finished run.
        folder: Where `mtkit.toml` goes.
    """
    root = teacher.resolve()
    workspace = Workspace(root)
    if root.name == workspace.model.name and not workspace.recipe_file.is_file():
        workspace = Workspace(root.parent)
    if not (workspace.recipe_file.is_file() and workspace.model.is_dir()):
        raise MtkitError(
            f"{teacher}: not the workspace of a finished run: {workspace.recipe_file.name} or "
            f"{workspace.model.name}/ is missing",
            "name one such as runs/NAME; for a public model write a recipe with translated_by = "
            '"FOLDER" in each [[data.train]]',
        )
    recipe = load_recipe(workspace.recipe_file)
    if recipe.objective != "translation" or recipe.data.is_trees:
        raise MtkitError(f"{teacher}: not a translator, so no student can learn from it")
    if recipe.model.architecture == "decoder-only":
        raise MtkitError(
            f"{teacher}: a translator without an encoder, which students of this kind have",
            'write a recipe with translated_by = "FOLDER" in each [[data.train]]',
        )
    data_root = str(recipe.data.data_root)
    tables = recipe.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    tables = {**relative_to_root(tables, data_root), "name": f"{recipe.name}-student"}
    tables["data"]["data_root"] = data_root
    train = [
        corpus for corpus in tables["data"]["train"] if "target" not in corpus or "source" in corpus
    ]
    if not train:
        raise MtkitError(
            f"{teacher}: all its corpora are text of the target language, so a student has no "
            "sources to learn from",
            'write a recipe with source and translated_by = "FOLDER" in each [[data.train]]',
        )
    for corpus in train:
        for key in ("alignments", "synthesis"):
            corpus.pop(key, None)
        corpus["translated_by"] = str(workspace.model)
    tables["data"]["train"] = train
    model, training = tables.setdefault("model", {}), tables.setdefault("training", {})
    depth = recipe.model.num_encoder_layers
    model["num_encoder_layers"] = max(depth + 1, depth * 3 // 2)
    model["num_decoder_layers"] = 1
    if recipe.model.d_key * recipe.model.num_heads == recipe.model.d_model:
        # As it is by default.
        model.pop("d_key", None)
    if recipe.model.d_value * recipe.model.num_heads == recipe.model.d_model:
        model.pop("d_value", None)
    for key in ("start_from", "lora", "freeze", "guided_alignment", "stages"):
        training.pop(key, None)
    tables.setdefault("inference", {}).update(beam_size=1, n_best=1)
    tables["inference"].pop("rerank", None)
    preface = _STUDENT.format(
        name=recipe.name, model=workspace.model, language=recipe.data.source_language
    )
    text = preface + tomli_w.dumps(tables)
    check_recipe(tomllib.loads(text), f"the student of {teacher}", Path.cwd())
    return _write(text, folder)


def _write(text: str, folder: Path | None) -> Path:
    path = (folder or Path()) / PROJECT_RECIPE
    if path.exists():
        raise MtkitError(
            f"{path} already exists",
            "remove it or rename it first, or work in an empty folder",
        )
    write_atomically(path, text)
    return path
