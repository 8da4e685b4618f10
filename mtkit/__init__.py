"""mtkit: a parallel corpus goes in; a fast, scored, deployable translator comes out.

Rooms, from the top down; each imports only from those below it, and rooms on one line never meet:

    cli          the commands: parse, call, render
    pipeline     what spans rooms: prepare, train, translate, score, run, init
    training     data to checkpoints
    inference    a model and text to translations
    data | model | evaluation
    recipe       what a run is
    workspace | console | standard_streams
    errors | paths

The public names below load their rooms on first use, so that `import mtkit` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtkit.inference.translate import Translator
    from mtkit.inference.translation import Request, Translation
    from mtkit.pipeline.prepare import prepare
    from mtkit.pipeline.score import score
    from mtkit.pipeline.translate import translate
    from mtkit.recipe import load_recipe
    from mtkit.training.averaging.average import average
    from mtkit.training.train import train
    from mtkit.workspace import Workspace

__version__ = "0.1.0"

__all__ = [
    "Request",
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
    "Request": "mtkit.inference.translation",
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
