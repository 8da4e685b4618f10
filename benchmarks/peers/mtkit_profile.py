"""Measures where an update of mtkit spends its time: by section, then by operator.

Sections are timed by wrapping functions from outside; time counts for the innermost one. On a GPU
each one's begin and end wait for the device, so that the whole is slower than training is. The
operators are those that torch's profiler sees in a few more updates.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from measured import read_task
from mtkit_worker import Training
from torch import nn
from torch.profiler import ProfilerActivity, profile

import mtkit.network.layouts
import mtkit.training.loss
import mtkit.training.objectives.stored
from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.token_store import TokenStore
from mtkit.training.learner import Learner
from mtkit.training.objectives.stored import TranslationBatches

_NUM_OPERATORS = 15
_NUM_PROFILED = 5


class Sections:
    """Seconds by section; what runs inside another section counts for the inner one alone."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._open: list[str] = []
        self._last = 0.0
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def wrap(self, owner: Any, name: str, section: str) -> None:
        """Has every call of a function count for a section."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*positional: Any, **named: Any) -> Any:
            self.enter(section)
            try:
                return function(*positional, **named)
            finally:
                self.leave()

        setattr(owner, name, timed)

    def watch(self, module: nn.Module, name: str, *, backward: bool) -> None:
        """Has a module's pass forward, and the one back, count for sections named after it."""
        module.register_forward_pre_hook(lambda *_: self.enter(f"{name}, forward"))
        module.register_forward_hook(lambda *_: self.leave())
        if backward:
            module.register_full_backward_pre_hook(lambda *_: self.enter(f"{name}, backward"))
            module.register_full_backward_hook(lambda *_: self.leave())

    def enter(self, section: str) -> None:
        """Begins a section."""
        self._turn()
        self._open.append(section)

    def leave(self) -> None:
        """Ends the section that began last."""
        self._turn()
        self._open.pop()

    def _turn(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._last
        self._last = now


def take_sections(training: Training, device: str) -> Sections:
    """Returns what times the sections of a training's updates from now on."""
    sections = Sections(device)
    sections.wrap(training, "update", "the rest")
    sections.wrap(training, "draw", "data")
    sections.wrap(TranslationBatches, "count_target_tokens", "data")
    sections.wrap(TranslationBatches, "split", "data")
    sections.wrap(TokenStore, "gather", "data")
    sections.wrap(mtkit.training.objectives.stored, "lay_out_side", "data")
    sections.wrap(mtkit.training.objectives.stored, "pack_side", "data")
    sections.wrap(TranslationBatch, "to", "data")
    model = training.model
    # Their inputs have no gradient, by whose arrival the end of a pass back is noticed.
    sections.watch(model.source_embedding, "embeddings", backward=False)
    sections.watch(model.target_embedding, "embeddings", backward=False)
    sections.watch(model.encoder, "encoder", backward=True)
    sections.watch(model.decoder, "decoder", backward=True)
    for name in ("attend", "attend_by_mask"):
        sections.wrap(mtkit.network.layouts, name, "attention itself, forward")
    # Forward, it makes the gradients of states and embeddings as well.
    sections.wrap(mtkit.training.loss, "projected_cross_entropy", "projection and loss")
    sections.wrap(torch.Tensor, "backward", "backward, the rest")
    sections.wrap(Learner, "update", "optimizer")
    return sections


def print_sections(sections: Sections, num_updates: int) -> None:
    total = sum(sections.seconds.values())
    print(f"| section, of {num_updates} updates | ms an update | share |")
    print("|---|---|---|")
    for name, seconds in sections.seconds.items():
        print(f"| {name} | {1e3 * seconds / num_updates:.1f} | {100 * seconds / total:.1f} % |")
    print(f"| all | {1e3 * total / num_updates:.1f} | |")


def print_operators(run: Callable[[], None], device: str) -> None:
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=activities) as profiler:
        run()
    kind = "device" if device == "cuda" else "cpu"
    events = [
        (event.key, getattr(event, f"self_{kind}_time_total"), event.count)
        for event in profiler.key_averages()
    ]
    total = sum(microseconds for _, microseconds, _ in events)
    print(f"\n| operator, its own {kind} time, of {_NUM_PROFILED} updates | ms an update ", end="")
    print("| share | calls an update |\n|---|---|---|---|")
    for name, microseconds, calls in sorted(events, key=lambda event: -event[1])[:_NUM_OPERATORS]:
        milliseconds = microseconds / 1e3 / _NUM_PROFILED
        share = 100 * microseconds / total
        print(f"| {name} | {milliseconds:.1f} | {share:.1f} % | {calls / _NUM_PROFILED:.0f} |")


def main() -> None:
    task = read_task()
    training = Training(task)

    def run(count: int) -> None:
        for _ in range(count):
            training.update(training.draw())

    run(task["warm_up"])
    print_operators(lambda: run(_NUM_PROFILED), task["device"])
    sections = take_sections(training, task["device"])
    run(task["updates"])
    print()
    print_sections(sections, task["updates"])


if __name__ == "__main__":
    main()
