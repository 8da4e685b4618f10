"""Opens an engine for model folders: the one in C++ where it suffices, else PyTorch."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import explain_missing_package
from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.native_engine import open_native_engine
from mtkit.recipe.inference import Inference


def open_engine(folders: Sequence[Path], settings: Inference, device: str) -> Engine:
    """Returns the engine for a model folder or an ensemble; it loads PyTorch only if needed."""
    if settings.engine == "auto" and (native := open_native_engine(folders, settings, device)):
        return native
    try:
        from mtkit.inference.engines.open_torch_engine import open_torch_engine  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise explain_missing_package(error) from error
    return open_torch_engine(folders, settings, device)
