"""mtkit: a parallel corpus goes in; a fast, scored, deployable translator comes out.

Rooms, from the top down; each imports only from those below it, and rooms on one line never meet:

    cli/           the commands: parse, call, render
    pipeline/      what spans rooms: prepare, train, translate, score, run, init
    training/ | serving/
                   data to checkpoints; HTTP around inference
    documents/     files and markup, translated and put together again
    inference/     a model and text to translations
    data/ | model/
                   corpora to batches; what a model is, on disk and off it
    network/ | evaluation/
                   tensors in, tensors out; scores and reports, without torch
    checks/        defects of a line or a pair, one detector each
    text/          text by itself
    recipe/        what a run is
    workspace.py   the one folder that holds all a recipe produces

and beneath them what every room may need:

    folders.py     folders that a draft takes the place of, whole or not at all
    files.py       files written whole or not at all, and JSON read from them
    pages.py       templates of HTML pages
    console.py     what is said to a person
    devices.py     names of devices
    processors.py  how many processors there are
    memory.py      how much memory there is
    units.py       counts, lengths of time and amounts of memory in words
    worker_processes.py
                   a function over many items in several processes, results in order
    standard_streams.py
                   standard input, output and error, whatever a command was started with
    foreign_files.py, programs.py
                   what may be a stranger's
    digests.py     short digests of values, bytes and files
    errors.py, locks.py, paths.py, version.py

The public names below load their rooms on first use, so that `import mtkit` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mtkit.version import __version__ as __version__

if TYPE_CHECKING:
    from mtkit.inference.translate import Translator
    from mtkit.inference.translation import Request, Translation
    from mtkit.pipeline.prepare import prepare
    from mtkit.pipeline.score import score
    from mtkit.pipeline.translate import translate
    from mtkit.recipe import load_recipe
    from mtkit.serving.client import RemoteTranslator
    from mtkit.text.glossary import Term
    from mtkit.training.averaging.average import average
    from mtkit.training.train import train
    from mtkit.workspace import Workspace

__all__ = [
    "RemoteTranslator",
    "Request",
    "Term",
    "Translation",
    "Translator",
    "Workspace",
    "average",
    "load_recipe",
    "prepare",
    "score",
    "train",
    "translate",
]

_HOMES = {
    "RemoteTranslator": "mtkit.serving.client",
    "Request": "mtkit.inference.translation",
    "Term": "mtkit.text.glossary",
    "Translation": "mtkit.inference.translation",
    "Translator": "mtkit.inference.translate",
    "Workspace": "mtkit.workspace",
    "average": "mtkit.training.averaging.average",
    "load_recipe": "mtkit.recipe",
    "prepare": "mtkit.pipeline.prepare",
    "score": "mtkit.pipeline.score",
    "train": "mtkit.training.train",
    "translate": "mtkit.pipeline.translate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mtkit' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
