"""Large language models behind an HTTP API, as translators of lines."""

from pathlib import Path


def is_llm_file(model: str | Path) -> bool:
    """Checks whether a model is the file of a large language model."""
    return str(model).endswith(".toml")
