"""The front door of the engines: the one that settings name, with its model."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.inference.engines.engine import Engine
from mtkit.recipe.inference import Inference


def open_engine(folders: Sequence[Path], settings: Inference, device: str) -> Engine:
    """Returns an engine with the model in a folder, or those of an ensemble.

    Its library is loaded here, and no other's.

    Args:
        folders: Model folders.
        settings: Which engine, and how it runs.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.

    Raises:
        MtkitError: There is no such device; there is no model, or it is damaged.
    """
    match settings.engine:
        case "torch":
            from mtkit.inference.engines.torch_engine import open_torch_engine

            return open_torch_engine(folders, settings, device)
        case "ctranslate2":
            from mtkit.inference.engines.ctranslate2_engine import open_ctranslate2_engine

            return open_ctranslate2_engine(folders, device)
