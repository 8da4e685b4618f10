"""Measures what large matrix products reach, in fp32 and in bf16: the machine's peak of the moment.

    python peak.py DEVICE THREADS      THREADS: 0 leaves their number to torch

Prints one JSON line. Sizes rise until one product would take too long, as in bf16 on a CPU without
instructions for it.
"""

import json
import sys
import time

import torch

_SIZES = (256, 512, 1024, 2048, 3072, 4096)
_MAX_SECONDS = 2.0
_NUM_REPEATS = 5


def best_rate(dtype: torch.dtype, device: str) -> dict[str, float]:
    """Returns the best rate of any size, in operations per second, and that size."""
    best = {"operations_per_second": 0.0, "size": 0}
    for size in _SIZES:
        operations = 2 * size**3
        rate = best["operations_per_second"]
        if rate and operations / rate > _MAX_SECONDS:
            break
        seconds = min(_time_products(size, dtype, device))
        if operations / seconds > rate:
            best = {"operations_per_second": operations / seconds, "size": size}
    return best


def _time_products(size: int, dtype: torch.dtype, device: str) -> list[float]:
    """Returns the seconds of each of some products; fewer where they take long."""
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    began_at = time.perf_counter()
    times: list[float] = []
    # The first one may be slow, and counts only where there is no time for another.
    while len(times) <= _NUM_REPEATS and time.perf_counter() - began_at < _MAX_SECONDS:
        _wait(device)
        started_at = time.perf_counter()
        _ = left @ right
        _wait(device)
        times.append(time.perf_counter() - started_at)
    return times


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    device, threads = sys.argv[1], int(sys.argv[2])
    if threads:
        torch.set_num_threads(threads)
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    print(json.dumps({name: best_rate(dtype, device) for name, dtype in dtypes.items()}))


if __name__ == "__main__":
    main()
