"""mtkit: a parallel corpus goes in; a fast, scored, deployable translator comes out.

The public names below load their modules on first use, so that `import mtkit` costs nothing. The
subpackages and their layers are in docs/architecture.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mtkit.version import __version__ as __version__

if TYPE_CHECKING:
    from mtkit.inference.classify import LineClassifier as LineClassifier
    from mtkit.inference.request import Request as Request
    from mtkit.inference.translation import Translation as Translation
    from mtkit.inference.translator import Translator as Translator
    from mtkit.pipeline.prepare import prepare as prepare
    from mtkit.pipeline.score import score as score
    from mtkit.pipeline.translate import translate as translate
    from mtkit.recipe import load_recipe as load_recipe
    from mtkit.serving.client import RemoteTranslator as RemoteTranslator
    from mtkit.text.glossary import Term as Term
    from mtkit.training.averaging.average import average as average
    from mtkit.training.train import train as train
    from mtkit.workspace import Workspace as Workspace

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
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mtkit' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
