"""The CPU engine without PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mtkit.inference.engines.engine import Engine
from mtkit.recipe.inference import Inference


class NativeEngine(Engine, Protocol):
    """An engine that names its arithmetic."""

    @property
    def precision(self) -> str:
        """Such as `fp32`."""
        ...


def open_native_engine(
    folders: Sequence[Path], settings: Inference, device: str
) -> NativeEngine | None:
    """Returns an engine for one model folder, or for an ensemble; None if PyTorch is needed."""
    return None
