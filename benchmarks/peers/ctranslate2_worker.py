"""Translates with CTranslate2's own client for the benchmark, on what mtkit exported.

It needs ctranslate2 and sentencepiece, and nothing of mtkit:

    python ctranslate2_worker.py TASK whole < source.txt > translations.txt
"""

import json
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece
from translating import (
    Translate,
    find_fastest,
    find_pieces,
    read_task,
    time_steady,
    versions_of,
)

BATCHES = (("tokens", 1024), ("tokens", 2048), ("tokens", 4096), ("examples", 32), ("examples", 64))
"""Units that its `max_batch_size` counts, and how many."""


class Client:
    """A model that is loaded.

    Args:
        task: What `read_task` returned.
        inter_threads: Batches translated side by side.
    """

    def __init__(self, task: dict[str, Any], inter_threads: int) -> None:
        folder = Path(task["model"])
        self._task = task
        model_path = folder / "ctranslate2"
        self._translator = ctranslate2.Translator(
            str(model_path),
            inter_threads=inter_threads,
            intra_threads=max(1, task["threads"] // inter_threads),
        )
        self._source, self._target = (
            sentencepiece.SentencePieceProcessor(model_file=str(find_pieces(folder, side)))
            for side in ("source", "target")
        )
        config = json.loads((model_path / "config.json").read_text("utf-8"))
        self._end = [] if config.get("add_source_eos") else [config.get("eos_token", "</s>")]

    def translate(
        self, lines: list[str], batch_type: str, batch_size: int
    ) -> tuple[list[str], int]:
        """Returns the lines' translations and the number of tokens in them."""
        sources = [pieces + self._end for pieces in self._source.encode(lines, out_type=str)]
        results = self._translator.translate_batch(
            sources,
            beam_size=self._task["beam_size"],
            length_penalty=self._task["alpha"],
            batch_type=batch_type,
            max_batch_size=batch_size,
            max_input_length=0,
            min_decoding_length=self._task["min_length"],
            max_decoding_length=self._task["max_length"],
        )
        pieces = [result.hypotheses[0] for result in results]
        # `</s>` isn't among them.
        return self._target.decode(pieces), sum(len(one) + 1 for one in pieces)


def list_candidates(threads: int) -> list[dict[str, Any]]:
    """Returns the settings to choose from: batches in turn by all threads, or one per thread."""
    return [
        {"inter_threads": inter_threads, "batch_type": batch_type, "batch_size": batch_size}
        for inter_threads in sorted({1, threads})
        for batch_type, batch_size in BATCHES
    ]


def main() -> None:
    task, what = read_task()
    clients: dict[int, Client] = {}

    def translator_of(settings: dict[str, Any]) -> Translate:
        inter_threads = settings["inter_threads"]
        if inter_threads not in clients:
            clients[inter_threads] = Client(task, inter_threads)
        client = clients[inter_threads]
        return lambda lines: client.translate(lines, settings["batch_type"], settings["batch_size"])

    if what == "tune":
        find_fastest(task, list_candidates(task["threads"]), translator_of)
        return
    translate = translator_of(task["settings"])
    if what == "whole":
        lines = sys.stdin.buffer.read().decode("utf-8").split("\n")[:-1]
        translations, _ = translate(lines)
        sys.stdout.buffer.write("".join(f"{line}\n" for line in translations).encode())
        return
    versions = versions_of("ctranslate2", "sentencepiece")
    time_steady(task, translate, {"threads": task["threads"], "versions": versions})


if __name__ == "__main__":
    main()
