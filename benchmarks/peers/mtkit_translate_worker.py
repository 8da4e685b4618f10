"""Translates with mtkit's Python interface for the benchmark; what a user calls, with a clock."""

from pathlib import Path
from typing import Any

from translating import read_task, time_steady, versions_of

from mtkit import Translator
from mtkit.inference.engines.native_engine import find_native_precision
from mtkit.inference.streams.byte_lines import WINDOW_LINES, take_windows
from mtkit.model.config import read_settings
from mtkit.recipe.override_section import override_section


def main() -> None:
    task, _ = read_task()
    folder = Path(task["model"])
    settings = override_section(read_settings(folder), "inference", task["overrides"])
    translator = Translator(
        folder,
        device="cpu",
        settings=settings,
    )

    def translate_and_count(lines: list[str]) -> tuple[list[str], int]:
        windows = take_windows(lines, WINDOW_LINES)
        found = [translation for window in windows for translation in translator.search(window)]
        num_tokens = sum(len(translation.candidates[0].token_ids) for translation in found)
        return [translation.text for translation in found], num_tokens

    facts: dict[str, Any] = {"threads": task["threads"], "versions": versions_of("mtkit")}
    facts["arithmetic"] = find_native_precision([folder], settings, "cpu")
    time_steady(task, translate_and_count, facts)


if __name__ == "__main__":
    main()
