"""Opens a translator that asks a large language model."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.inference.translator import Translator


def open_llm(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator that asks the large language model of a file, `llm.toml`."""
    raise NotImplementedError
