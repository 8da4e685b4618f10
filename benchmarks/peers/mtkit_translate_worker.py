"""Translates with mtkit's Python interface for the benchmark; what a user calls, with a clock."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from translating import read_task, time_steady, versions_of

from mtkit import Translator
from mtkit.inference.model_config import read_config, read_settings
from mtkit.recipe.loading import override_section


class TokenCount:
    """Counts the tokens of the best hypotheses that an engine finds.

    Args:
        engine: `torch` or `ctranslate2`.
    """

    def __init__(self, engine: str) -> None:
        self._total = 0
        module = import_module(f"mtkit.inference.engines.{engine}_engine")
        [kind] = [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type)
            and kind.__module__ == module.__name__
            and hasattr(kind, "search")
        ]
        search = kind.search

        def search_and_count(this: Any, sources: Sequence[Any], settings: Any) -> Any:
            found = search(this, sources, settings)
            self._total += sum(len(hypotheses[0].tokens) for hypotheses in found)
            return found

        kind.search = search_and_count

    def take(self) -> int:
        """Returns how many there were since the last call."""
        total, self._total = self._total, 0
        return total


def main() -> None:
    task, _ = read_task()
    folder = Path(task["model"])
    settings = override_section(read_settings(folder), "inference", task["overrides"])
    count = TokenCount(task["engine"])
    translator = Translator(folder, engine=task["engine"], device="cpu", settings=settings)

    def translate(lines: list[str]) -> tuple[list[str], int]:
        count.take()
        translations = list(translator.translate(lines))
        return translations, count.take()

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
