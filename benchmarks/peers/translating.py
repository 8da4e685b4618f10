"""Times a translator and counts what it wrote; every worker of translate_speed.py.

Standard library alone, since each peer runs in an environment of its own. A worker is started with
the path of a JSON file (`read_task`) and what to do:

    steady    the model loaded and warmed up, then all lines timed; one JSON line on stdout
    whole     everything once, as a user would have it, from stdin to stdout where it can
    tune      which batch size is fastest on some of the lines; one JSON line on stdout
"""

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from memory import peak_bytes

Translate = Callable[[list[str]], tuple[list[str], int]]
"""From lines to their translations and the number of tokens in them, `</s>` counted."""

_NUM_TRIALS = 2
_NUM_CALLS_TO_WARM_UP = 3


def read_task() -> tuple[dict[str, Any], str]:
    """Returns what the first argument's file says, and what to do."""
    return json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2]


def read_lines(path: str) -> list[str]:
    r"""Returns a file's lines, which `\n` alone ends."""
    return Path(path).read_text("utf-8").split("\n")[:-1]


def write_lines(path: str, lines: Sequence[str]) -> None:
    """Writes lines to a file."""
    Path(path).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def spread(lines: list[str], number: int) -> list[str]:
    """Returns so many lines, or all, from evenly over the whole."""
    step = max(1, len(lines) // max(1, number))
    return lines[::step][:number]


def find_pieces(folder: Path, side: str) -> Path:
    """Returns the SentencePiece model of a side in a model folder."""
    joint = folder / "joint.spm"
    return joint if joint.is_file() else folder / f"{side}.spm"


def versions_of(*packages: str) -> dict[str, str]:
    """Returns Python's version and those of installed distributions."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def time_steady(task: dict[str, Any], translate: Translate, facts: dict[str, Any]) -> None:
    """Prints how long a warm translator takes over all lines, and writes their translations.

    Args:
        task: What `read_task` returned.
        translate: The translator.
        facts: What else to print: threads, versions.
    """
    lines = read_lines(task["source"])
    few = spread(lines, task["warm_up"] // _NUM_CALLS_TO_WARM_UP)
    for _ in range(_NUM_CALLS_TO_WARM_UP):
        translate(few)
    started_at = time.perf_counter()
    translations, num_tokens = translate(lines)
    seconds = time.perf_counter() - started_at
    write_lines(task["output"], translations)
    result = {
        "seconds": seconds,
        "sentences": len(lines),
        "target_tokens": num_tokens,
        "peak_bytes": peak_bytes(),
        **facts,
    }
    print(json.dumps(result), flush=True)


def find_fastest(
    task: dict[str, Any],
    candidates: Sequence[dict[str, Any]],
    translator_of: Callable[[dict[str, Any]], Translate],
) -> None:
    """Prints which candidate translates fastest, the best of some trials each, in turn.

    Args:
        task: What `read_task` returned.
        candidates: Settings to choose from.
        translator_of: Makes a translator with such settings.
    """
    lines = spread(read_lines(task["source"]), task["tuning_lines"])
    translators = [translator_of(candidate) for candidate in candidates]
    best = [float("inf")] * len(candidates)
    translators[0](lines)
    for _ in range(_NUM_TRIALS):
        for index, translate in enumerate(translators):
            started_at = time.perf_counter()
            translate(lines)
            best[index] = min(best[index], time.perf_counter() - started_at)
    speeds = [
        {**candidate, "sentences_per_second": len(lines) / seconds}
        for candidate, seconds in zip(candidates, best, strict=True)
    ]
    fastest = candidates[best.index(min(best))]
    print(json.dumps({"fastest": fastest, "tried": speeds}), flush=True)
