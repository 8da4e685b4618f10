"""Times updates of a training loop and counts their tokens; every worker, in any environment.

Standard library and torch alone, since each peer runs in an environment of its own. A worker is
started with the path of a JSON file as its only argument (`read_task`), trains, and calls
`Window.end_update` once per update, which prints the result as one JSON line and ends the process.
"""

import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from memory import peak_bytes


def read_task() -> dict[str, Any]:
    """Returns what is to be measured, from the file that the first argument names."""
    task: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    if task["threads"]:
        torch.set_num_threads(task["threads"])
    return task


class Window:
    """The updates that are measured: some after the warm-up, with all that lies between them.

    An update ends where the worker says so, at the same point in each: what is timed are whole
    turns of the loop, reading, batching and optimizer included.

    Args:
        task: What `read_task` returned.
        precision: Arithmetic of the products, as the worker set it up.
        package: The distribution whose version is reported.
    """

    def __init__(self, task: dict[str, Any], precision: str, package: str | None = None) -> None:
        self._task = task
        self._precision = precision
        self._package = package
        self._num_updates = 0
        self._lengths: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._num_slots = 0
        self._started_at = 0.0

    def end_update(self, source: torch.Tensor, target: torch.Tensor, num_slots: int) -> None:
        """Counts an update that has just ended.

        Args:
            source: Real tokens of each source.
            target: Real tokens of each target, `</s>` counted.
            num_slots: Tokens of both sides, padding included.

        Raises:
            SystemExit: The last one has ended, and the result is printed.
        """
        self._num_updates += 1
        past_warm_up = self._num_updates - self._task["warm_up"]
        if past_warm_up == 0:
            self._started_at = self._now()
        elif past_warm_up > 0:
            # Summed up later: on a GPU that would wait for it.
            self._lengths.append((source.detach(), target.detach()))
            self._num_slots += num_slots
        if past_warm_up == self._task["updates"]:
            self._print(self._now() - self._started_at)
            raise SystemExit(0)

    def _now(self) -> float:
        if self._task["device"] == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _print(self, seconds: float) -> None:
        totals = {"target_tokens": 0, "source_tokens": 0}
        pairs = {"source_source": 0, "target_source": 0, "target_target": 0}
        for source, target in self._lengths:
            sources, targets = source.long().cpu(), target.long().cpu()
            totals["target_tokens"] += int(targets.sum())
            totals["source_tokens"] += int(sources.sum())
            pairs["source_source"] += int((sources * sources).sum())
            pairs["target_source"] += int((targets * sources).sum())
            # A target position sees itself and those before.
            pairs["target_target"] += int((targets * (targets + 1)).sum()) // 2
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        if self._package is not None:
            versions[self._package] = version(self._package)
        result = {
            **totals,
            "attended_pairs": pairs,
            "slots": self._num_slots,
            "updates": self._task["updates"],
            "seconds": seconds,
            "peak_bytes": peak_bytes(self._task["device"]),
            "precision": self._precision,
            "threads": torch.get_num_threads(),
            "versions": versions,
        }
        # In one piece: processes that train together print at the same time.
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
