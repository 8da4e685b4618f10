"""Entry point of `mtkit init`."""

import re
from itertools import takewhile
from pathlib import Path

from mtkit.errors import MtkitError, suggest
from mtkit.files import write_atomically
from mtkit.recipe import PROJECT_RECIPE, shipped_recipes

_PREFACE = """\
# Copied from the shipped recipe {name}; change what you like. In this folder:
#   mtkit run                              all steps: prepare, train, average, score
#   mtkit prepare, train, average, score   the same, one step at a time
#   mtkit translate < input.txt            translate with the trained model
# A relative data_root is relative to this file's folder.

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
    path = (folder or Path()) / PROJECT_RECIPE
    shipped = shipped_recipes()
    if recipe not in shipped:
        raise MtkitError(
            f"no shipped recipe named '{recipe}'" + suggest(recipe, shipped),
            "shipped recipes: " + ", ".join(shipped),
        )
    if path.exists():
        raise MtkitError(
            f"{path} already exists",
            "remove it or rename it first, or work in an empty folder",
        )
    write_atomically(path, _PREFACE.format(name=recipe) + shipped[recipe].read_text("utf-8"))
    return path
