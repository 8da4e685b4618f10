"""Measures a GPU, and mtkit on it, for benchmarks/gpu.py.

    python gpu_worker.py limits|updates|search|together TASK

TASK is a JSON file: a `recipe`, its prepared `workspace` and the `overrides` that it was prepared
with. Rows of tables are printed as they are found.
"""

import gc
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from mtkit_worker import Training
from random_model import SHAPES, make_random_model
from torch.profiler import ProfilerActivity, profile

from mtkit.data.batches.collate import TranslationBatch
from mtkit.data.batches.updates import Update
from mtkit.inference.translator import Translator
from mtkit.model.costs import (
    bytes_of_weights,
    bytes_per_token,
    count_operations,
)
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.training.distributed import leave_processes

UPDATE_TOKENS = (25_000, 3_125)
"""An update of the paper on one GPU, and one GPU's part of it among eight."""
DROPOUTS = {"tiny": 0.3, "base": 0.1, "big": 0.3}
_WARM_UP, _TIMED, _COUNTED = 8, 24, 3
_SHAPES = 16
"""How much longer the warm-up is with graphs, until most shapes have been recorded."""
VARIANTS = {
    "": [],
    "graphs": ["training.cuda_graphs=true"],
    "fp16": ["training.precision=fp16"],
    "fp16, graphs": ["training.precision=fp16", "training.cuda_graphs=true"],
    "recompute": ["training.recompute=true"],
}
_SIZE = 8_192
_LINES, _OUTPUT_TOKENS = 1_024, 25


def measure_limits() -> dict[str, float]:
    """Returns operations a second of large products by arithmetic, and bytes a second of a copy."""
    limits = {}
    for name, dtype in {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "tf32": torch.float32,
        "fp32": torch.float32,
    }.items():
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        left, right = (torch.randn(_SIZE, _SIZE, device="cuda").to(dtype) for _ in range(2))
        seconds = _time(lambda left=left, right=right: left @ right)
        limits[name] = 2 * _SIZE**3 / seconds
    torch.backends.cuda.matmul.allow_tf32 = False
    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    limits["copy"] = 2 * source.numel() / _time(lambda: target.copy_(source))
    return limits


def _time(act: Callable[[], object]) -> float:
    """Returns the median seconds of an act on the device."""
    for _ in range(3):
        act()
    times = []
    for _ in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        act()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


@dataclass
class Counted:
    """Synchronisations by the line of mtkit that asked for each."""

    places: dict[str, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.places.values())


@contextmanager
def counting_synchronisations() -> Iterator[Counted]:
    """Counts how often the host waits for the device while the block runs."""
    counted = Counted({})
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, category, *where, **_: _note(counted, message)
            yield counted
    finally:
        torch.cuda.set_sync_debug_mode("default")


def _note(counted: Counted, message: Warning | str) -> None:
    if "synchroniz" not in str(message):
        return
    frame = sys._getframe()
    while frame is not None and "/mtkit/" not in frame.f_code.co_filename:
        frame = frame.f_back
    place = "?"
    if frame is not None:
        place = f"{frame.f_code.co_filename.split('/mtkit/')[-1]}:{frame.f_lineno}"
    counted.places[place] = counted.places.get(place, 0) + 1


def measure_updates(task: dict[str, Any]) -> None:
    """Prints a row for each model and size of an update."""
    peak = measure_limits()["bf16"]
    print(
        "| model | target tokens an update | with | tokens/s | ms an update | share of peak | "
        "waits an update | kernels an update | device busy | GiB, and by plan |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    places: dict[str, int] = {}
    rows = [*product(SHAPES, UPDATE_TOKENS, ("", "graphs"))]
    rows += product(("base", "big"), UPDATE_TOKENS[:1], [*VARIANTS][2:])
    for name, tokens, variant in rows:
        try:
            places |= _measure_model(task, name, tokens, peak, variant)
        except Exception as error:  # noqa: BLE001 (the others are measured all the same)
            print(f"| {name} | {tokens:,} | failed: {type(error).__name__}: {error} |")
            import traceback  # noqa: PLC0415

            traceback.print_exc()
        gc.collect()
        torch.cuda.empty_cache()
    print("| waits of one update of the last kind, by place | " + _list(places) + " |")


def _list(places: dict[str, int]) -> str:
    return ", ".join(f"{place} {count}" for place, count in sorted(places.items()))


def _measure_model(
    task: dict[str, Any], name: str, tokens: int, peak: float, variant: str
) -> dict[str, int]:
    layers, d_model, d_ff, heads = SHAPES[name]
    model = (
        f"model={{num_encoder_layers={layers}, num_decoder_layers={layers}, d_model={d_model}, "
        f'd_ff={d_ff}, num_heads={heads}, norm="post", dropout={DROPOUTS[name]}}}'
    )
    settings = [model, f"training.batch_tokens={tokens}", "training.micro_batch_tokens=auto"]
    settings += VARIANTS[variant]
    torch.cuda.reset_peak_memory_stats()
    training = Training({**task, "device": "cuda", "overrides": [*task["overrides"], *settings]})
    torch.cuda.reset_peak_memory_stats()
    for _ in range(_WARM_UP * (_SHAPES if "graphs" in variant else 1)):
        training.update(training.draw())
    seconds, counts = _time_updates(training)
    operations = _count(training, counts)
    memory = torch.cuda.max_memory_allocated()
    with counting_synchronisations() as waits:
        for _ in range(_COUNTED):
            training.update(training.draw())
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        began_at = time.perf_counter()
        for _ in range(_COUNTED):
            training.update(training.draw())
        torch.cuda.synchronize()
        profiled = time.perf_counter() - began_at
    kernels = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(event.device_time for event in kernels) / 1e6
    rate = counts["target"] / seconds
    planned = _plan_memory(training, counts)
    print(
        f"| {name} | {counts['target'] / _TIMED:,.0f} | {variant} | {rate:,.0f} "
        f"| {1e3 * seconds / _TIMED:.1f} | {100 * operations / seconds / peak:.1f} % "
        f"| {waits.total / _COUNTED:.1f} | {len(kernels) / _COUNTED:,.0f} "
        f"| {1e3 * busy / _COUNTED:.1f} ms, {100 * busy / profiled:.0f} % of the profiled time "
        f"| {memory / 2**30:.2f}, {planned / 2**30:.2f} |",
        flush=True,
    )
    if name == "base" and not variant:
        _print_kernels(profiler, tokens)
    return {place: round(count / _COUNTED) for place, count in waits.places.items()}


def _print_kernels(profiler: Any, tokens: int) -> None:
    """Prints what the device was busy with longest, by the kernel."""
    events = [
        (event.key, event.self_device_time_total, event.count)
        for event in profiler.key_averages()
        if event.self_device_time_total and event.device_type == torch.autograd.DeviceType.CUDA
    ]
    total = sum(time_ for _, time_, _ in events)
    for key, microseconds, count in sorted(events, key=lambda event: -event[1])[:12]:
        print(
            f"| base, {tokens:,}: {key[:90]} | {100 * microseconds / total:.1f} % "
            f"| {microseconds / 1e3 / _COUNTED:.2f} ms | {count / _COUNTED:.0f} |"
        )
    print(
        f"| base, {tokens:,}: operators on the CPU | "
        f"{sum(e.count for e in profiler.key_averages() if e.key[:6] == 'aten::') / _COUNTED:.0f} |"
    )


def _time_updates(training: Training) -> tuple[float, dict[str, int]]:
    """Returns seconds and sums of the timed updates."""
    counts = {"source": 0, "target": 0, "pairs": 0, "longer": 0}
    torch.cuda.synchronize()
    began_at = time.perf_counter()
    drawn: list[Update[TranslationBatch]] = []
    for _ in range(_TIMED):
        update = training.draw()
        training.update(update)
        drawn.append(update)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began_at
    for update in drawn:
        source, target = training.data.train.lengths(update.examples).values()
        counts["source"] += int(source.sum())
        counts["target"] += int(target.sum())
        counts["longer"] = max(counts["longer"], int(source.sum()), int(target.sum()))
    return seconds, counts


def _count(training: Training, counts: dict[str, int]) -> int:
    """Returns the operations of the products with weights."""
    vocab_size = training.model.output_embedding.weight.shape[0]
    costs = count_operations(training.recipe.model, vocab_size)
    return costs.per_source_token * counts["source"] + costs.per_target_token * counts["target"]


def _plan_memory(training: Training, counts: dict[str, int]) -> float:
    """Returns the bytes that `mtkit plan` counts, of the largest update, without the loss."""
    weights = sum(weight.numel() for weight in training.model.parameters())
    of_source, of_target = bytes_per_token(training.recipe.model, is_half=True)
    fixed = bytes_of_weights(weights, weights, is_half=True)
    return fixed + (of_source + of_target) * counts["longer"]


def measure_search(task: dict[str, Any]) -> None:
    """Prints a row for each shape and beam: sentences a second, waits a step."""
    print("| model, outputs of 25 tokens | beam | sentences/s | tokens/s | waits a step |")
    print("|---|---|---|---|---|")
    pieces = Path(task["workspace"]) / "data" / "tokenizer"
    lines = [f"The {number} men in the yard talk of the old house." for number in range(_LINES)]
    with tempfile.TemporaryDirectory() as folder:
        for shape in ("tiny", "base"):
            make_random_model(Path(folder) / shape, shape, pieces, _OUTPUT_TOKENS)
            for beam in (1, 4):
                settings = Inference(
                    beam_size=beam, length_penalty=LengthPenalty(kind="power", alpha=0.0)
                )
                translator = Translator(Path(folder) / shape, device="cuda", settings=settings)
                list(translator.translate(lines[:64]))
                torch.cuda.synchronize()
                began_at = time.perf_counter()
                list(translator.translate(lines))
                seconds = time.perf_counter() - began_at
                with counting_synchronisations() as waits:
                    list(translator.translate(lines[:64]))
                print(
                    f"| {shape} | {beam} | {_LINES / seconds:,.0f} "
                    f"| {_LINES * _OUTPUT_TOKENS / seconds:,.0f} "
                    f"| {waits.total / (_OUTPUT_TOKENS + 1):.1f} |",
                    flush=True,
                )
                print(f"| waits by place | {_list(waits.places)} |", flush=True)


def train_together(task: dict[str, Any]) -> None:
    """Prints the speed of base updates on all GPUs that torchrun has started a process for."""
    layers, d_model, d_ff, heads = SHAPES["base"]
    model = (
        f"model={{num_encoder_layers={layers}, num_decoder_layers={layers}, d_model={d_model}, "
        f"d_ff={d_ff}, num_heads={heads}, dropout=0.1}}"
    )
    settings = [model, "training.batch_tokens=25000", "training.micro_batch_tokens=auto"]
    training = Training({**task, "device": "cuda", "overrides": [*task["overrides"], *settings]})
    try:
        for _ in range(_WARM_UP):
            training.update(training.draw())
        seconds, counts = _time_updates(training)
        if training.processes.is_first:
            count = training.processes.count
            rate = counts["target"] / seconds
            print(f"| base on {count} GPU(s) by NCCL, tokens/s | {rate:,.0f} |")
    finally:
        leave_processes(training.processes, has_ended=True)


def print_limits() -> None:
    """Prints what the machine is, and what its GPU reaches."""
    properties = torch.cuda.get_device_properties(0)
    print(
        f"| {torch.cuda.device_count()} x {properties.name} | "
        f"{properties.total_memory / 2**30:.0f} GiB | torch {torch.__version__} | "
        f"CUDA {torch.version.cuda} | Python {sys.version.split()[0]} | {os.cpu_count()} cores |"
    )
    for name, rate in measure_limits().items():
        unit = "TB/s, read and written" if name == "copy" else "TFLOP/s"
        print(f"| {name} | {rate / 1e12:.1f} {unit} |")


def main() -> None:
    task = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    match sys.argv[1]:
        case "limits":
            print_limits()
        case "updates":
            measure_updates(task)
        case "search":
            measure_search(task)
        case "together":
            train_together(task)


if __name__ == "__main__":
    main()
