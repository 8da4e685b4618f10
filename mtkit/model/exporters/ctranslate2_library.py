"""Loads CTranslate2's package; finds its devices and threads."""

from typing import Any

from mtkit.devices import read_device
from mtkit.errors import MtkitError, how_to_install


def load_library() -> Any:
    """Returns CTranslate2's package."""
    try:
        import ctranslate2  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise MtkitError("CTranslate2 isn't installed", how_to_install("ctranslate2")) from error
    except ImportError as error:
        raise MtkitError(
            f"CTranslate2 is installed, but can't be loaded: {error}",
            "pip install --force-reinstall ctranslate2",
        ) from error
    return ctranslate2


def parse_device(name: str, library: Any) -> tuple[str, int]:
    """Returns a device's kind and number."""
    kind, index = read_device(name)
    if kind == "cpu":
        return "cpu", 0
    num_gpus = library.get_cuda_device_count()
    if kind == "auto":
        return ("cuda", 0) if num_gpus else ("cpu", 0)
    if (index or 0) >= num_gpus:
        raise MtkitError(
            f"no device '{name}': CTranslate2 finds {num_gpus} GPUs", "use cpu or auto"
        )
    return "cuda", index or 0
