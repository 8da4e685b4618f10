"""Opens a translator that uses a large language model, and estimates its cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from mtkit.errors import MtkitError
from mtkit.inference.streams.byte_lines import WarningPrinter
from mtkit.inference.streams.input_format import InputFormat, read_requests
from mtkit.llm.client import Usage
from mtkit.llm.llm_lines import LlmLines
from mtkit.llm.settings import read_llm_settings
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section
from mtkit.recipe.overrides import override_key
from mtkit.text.languages import TranslatorLanguages

_KEYS = ("paragraphs", "protect", "protect_strings", "flags", "glossary")
"""Keys of `inference` that have an effect."""


def open_llm(
    path: Path,
    overrides: Sequence[str] = (),
    inference: Inference | None = None,
    /,
    *,
    source_language: str = "",
    target_language: str = "",
) -> LlmLines:
    """Returns a translator that uses the large language model of a file, `llm.toml`.

    Args:
        path: The file.
        overrides: `inference.KEY=VALUE`, of keys that don't concern a search.
        inference: Settings that they override; the defaults if None.
        source_language: The language of lines that name none; by default the file's first one.
        target_language: The language that they are translated into.

    Raises:
        MtkitError: The file isn't valid, the key is missing, or an override has no effect.
    """
    settings = read_llm_settings(path)
    for override in overrides:
        name = override_key(override).removeprefix("inference.").partition(".")[0]
        if override_key(override).startswith("inference.") and name not in _KEYS:
            raise MtkitError(
                f"--set {override}: a large language model has no such setting",
                f"its settings are in {path}; of the section inference it supports only "
                f"{', '.join(_KEYS)}",
            )
    inference = override_section(inference or Inference(), "inference", overrides)
    source, target = settings.source_languages, settings.target_languages
    languages = TranslatorLanguages(source, target, (source[0], target[0]))
    languages = languages.with_default(source_language, target_language)
    return LlmLines(settings, inference, languages, str(path))


def estimate(lines: LlmLines, source: BinaryIO, input_format: InputFormat) -> str:
    """Returns the estimated cost of translating lines, as text; sends nothing."""
    num_lines, usage = 0, Usage()
    with WarningPrinter() as printer:
        for window in read_requests(source, input_format, printer):
            num_lines += len(window)
            lines.estimate(window, usage)
    llm = lines.llm
    cost = usage.find_cost(llm)
    return (
        f"{num_lines:,} lines: {usage.requests:,} requests to {llm.model} at {llm.url}, "
        f"{usage.cached:,} of them answered by the cache; about {usage.input_tokens:,} tokens in "
        f"and {usage.output_tokens:,} out"
        + (f", {cost:.2f} {llm.prices.currency}" if cost else "")
        + ". Nothing was sent."
    )
