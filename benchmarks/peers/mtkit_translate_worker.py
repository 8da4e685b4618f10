"""Translates with mtkit's Python interface for the benchmark; what a user calls, with a clock."""

from pathlib import Path
from typing import Any

from translating import read_task, time_steady, versions_of

from mtkit import Translator
from mtkit.inference import translate
from mtkit.model.config import read_config, read_settings
from mtkit.recipe.loading import override_section


class TokenCount:
    """Counts the tokens of the best hypotheses that engines find."""

    def __init__(self) -> None:
        self.total = 0
        search_in_batches = translate.search_in_batches

        def search_and_count(*arguments: Any) -> Any:
            found = search_in_batches(*arguments)
            self.total += sum(len(hypotheses[0].token_ids) for hypotheses in found)
            return found

        translate.search_in_batches = search_and_count


def main() -> None:
    task, _ = read_task()
    folder = Path(task["model"])
    settings = override_section(read_settings(folder), "inference", task["overrides"])
    count = TokenCount()
    translator = Translator(
        folder,
        engine=task["engine"],
        device="cpu",
        settings=settings,
        # As `mtkit translate` has it.
        forks=True,
    )

    def translate_and_count(lines: list[str]) -> tuple[list[str], int]:
        before = count.total
        translations = translator.translate(lines)
        return translations, count.total - before

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
    time_steady(task, translate_and_count, facts)


if __name__ == "__main__":
    main()
