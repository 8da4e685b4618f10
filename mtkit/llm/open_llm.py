"""Opens a translator that asks a large language model."""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from mtkit.errors import MtkitError
from mtkit.inference.streams.byte_lines import WarningPrinter
from mtkit.inference.streams.input_format import InputFormat, read_requests
from mtkit.inference.translator import Translator
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
    *,
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator that asks the large language model of a file, `llm.toml`.

    Args:
        path: The file.
        overrides: `inference.KEY=VALUE`, of keys that don't concern a search.
        source_language: The language of lines that name none; by default the file's first one.
        target_language: The language that they are translated into.

    Raises:
        MtkitError: The file isn't valid, the key is missing, or an override has no effect.
    """
    return Translator(
        open_llm_lines(
            path, overrides, source_language=source_language, target_language=target_language
        )
    )


def estimate(
    path: Path,
    overrides: Sequence[str],
    source: BinaryIO,
    input_format: InputFormat,
    **languages: str,
) -> str:
    """Returns what it would take to translate lines, in words; sends nothing."""
    settings = read_llm_settings(path)
    lines = open_llm_lines(path, overrides, **languages)
    num_lines, totals = 0, (0, 0, 0, 0)
    with WarningPrinter() as printer:
        for window in read_requests(source, input_format, printer):
            num_lines += len(window)
            found = lines.estimate(window)
            totals = tuple(map(operator.add, totals, found))
    num_requests, num_cached, num_in, num_out = totals
    usage = Usage(input_tokens=num_in, output_tokens=num_out)
    cost = usage.find_cost(settings)
    return (
        f"{num_lines:,} lines: {num_requests:,} requests to {settings.model} at {settings.url}, "
        f"{num_cached:,} of them answered by the cache; about {num_in:,} tokens in and "
        f"{num_out:,} out"
        + (f", {cost:.2f} {settings.prices.currency}" if cost else "")
        + ". Nothing was sent."
    )


def open_llm_lines(
    path: Path,
    overrides: Sequence[str] = (),
    inference: Inference | None = None,
    /,
    *,
    source_language: str = "",
    target_language: str = "",
) -> LlmLines:
    """Returns what answers lines, as `open_llm` does; overrides change `inference`."""
    settings = read_llm_settings(path)
    for override in overrides:
        name = override_key(override).removeprefix("inference.").partition(".")[0]
        if override_key(override).startswith("inference.") and name not in _KEYS:
            raise MtkitError(
                f"--set {override}: a large language model has no such setting",
                f"its own are in {path}; of inference it takes {', '.join(_KEYS)}",
            )
    inference = inference or Inference()
    if overrides:
        inference = override_section(inference, "inference", overrides)
    source, target = settings.source_languages, settings.target_languages
    languages = TranslatorLanguages(source, target, (source[0], target[0]))
    return LlmLines(
        settings, inference, languages.with_default(source_language, target_language), str(path)
    )
