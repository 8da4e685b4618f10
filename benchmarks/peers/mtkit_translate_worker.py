"""Translates with mtkit's Python interface for the benchmark; what a user calls, with a clock."""

from pathlib import Path
from typing import Any

from translating import read_task, time_steady, versions_of

from mtkit import Translator
from mtkit.inference.model_config import read_config, read_settings
from mtkit.inference.translation import Translation
from mtkit.recipe.loading import override_section


class CountingTranslator(Translator):
    """A translator that says how many tokens it has found."""

    num_tokens = 0

    def search(self, *arguments: Any, **others: Any) -> list[Translation]:
        """Returns what is found, and counts the tokens of the best of it."""
        found = super().search(*arguments, **others)
        self.num_tokens += sum(len(translation.candidates[0].tokens) for translation in found)
        return found


def main() -> None:
    task, _ = read_task()
    folder = Path(task["model"])
    settings = override_section(read_settings(folder), "inference", task["overrides"])
    translator = CountingTranslator(
        folder,
        engine=task["engine"],
        device="cpu",
        settings=settings,
        # As `mtkit translate` has it.
        forks=True,
    )

    def translate(lines: list[str]) -> tuple[list[str], int]:
        before = translator.num_tokens
        translations = translator.translate(lines)
        return translations, translator.num_tokens - before

    facts: dict[str, Any] = {"threads": task["threads"]}
    if task["engine"] == "torch":
        # Loaded with the engine, and not with the other.
        import torch  # noqa: PLC0415

        from mtkit.inference.engines.torch_engine import choose_precision  # noqa: PLC0415

        facts["arithmetic"] = choose_precision(
            settings, torch.device("cpu"), read_config(folder).model
        )
        facts["threads"] = torch.get_num_threads()
    facts["versions"] = versions_of("torch" if task["engine"] == "torch" else "ctranslate2")
    time_steady(task, translate, facts)


if __name__ == "__main__":
    main()
