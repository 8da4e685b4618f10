"""mtkit: a parallel corpus goes in; a fast, scored, deployable translator comes out.

Subpackages, from the top down; each imports only from those below it, and those on one line never
import each other:

    cli/           parse arguments, call an entry point, render
    pipeline/      what spans subpackages: prepare, train, translate, score, run, init
    training/ | serving/
                   data to checkpoints; HTTP around inference
    documents/     file formats and markup around inference
    llm/           large language models as translators
    inference/     text to text with a model
    data/ | model/
                   corpora to batches; configuration, weights and model folders
    network/ | evaluation/
                   tensors in, tensors out; scores and reports, without torch
    engine/        the C++ engine and its binding
    checks/        defects of a line or pair, one detector each
    text/          text utilities
    recipe/        configuration of a run

The public names below load their modules on first use, so that `import mtkit` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mtkit.version import __version__ as __version__

if TYPE_CHECKING:
    from mtkit.inference.classify import LineClassifier
    from mtkit.inference.request import Request
    from mtkit.inference.translation import Translation
    from mtkit.inference.translator import Translator
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
    "LineClassifier",
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

_MODULES = {
    "LineClassifier": "mtkit.inference.classify",
    "RemoteTranslator": "mtkit.serving.client",
    "Request": "mtkit.inference.request",
    "Term": "mtkit.text.glossary",
    "Translation": "mtkit.inference.translation",
    "Translator": "mtkit.inference.translator",
    "Workspace": "mtkit.workspace",
    "average": "mtkit.training.averaging.average",
    "load_recipe": "mtkit.recipe",
    "prepare": "mtkit.pipeline.prepare",
    "score": "mtkit.pipeline.score",
    "train": "mtkit.training.train",
    "translate": "mtkit.pipeline.translate",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mtkit' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
