"""Measures attention forward and backward, and dropout, ours against PyTorch's own."""

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtkit.model.dropout import Dropout

_SIZES = [(256, 16, 4, 32), (128, 32, 8, 64)]
_REPEATS = 20


def milliseconds(work: Callable[[], object]) -> float:
    """Returns the shortest of several runs."""
    best = float("inf")
    for _ in range(_REPEATS):
        started_at = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started_at)
    return 1e3 * best


def attend(backend: SDPBackend, shape: tuple[int, int, int, int], dtype: torch.dtype) -> float:
    batch_size, length, num_heads, d_head = shape
    queries, keys, values = (
        torch.randn(batch_size, length, num_heads, d_head, dtype=dtype)
        .transpose(1, 2)
        .requires_grad_()
        for _ in range(3)
    )
    mask = torch.ones(batch_size, 1, 1, length, dtype=torch.bool)
    gradient = torch.randn(batch_size, num_heads, length, d_head, dtype=dtype)

    def work() -> None:
        with sdpa_kernel(backend):
            attended = nn.functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask
            )
        attended.backward(gradient)

    return milliseconds(work)


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; milliseconds, best of")
    print(f"{_REPEATS}; attention with a mask, forward and backward")
    for dtype in (torch.float32, torch.bfloat16):
        for shape in _SIZES:
            flash = attend(SDPBackend.FLASH_ATTENTION, shape, dtype)
            plain = attend(SDPBackend.MATH, shape, dtype)
            print(
                f"{dtype} batch, length, heads, d_head {shape}: fused {flash:.1f} math {plain:.1f}"
            )
    numbers = torch.randn(4096, 512)
    ours = Dropout(0.1).train()
    native = milliseconds(lambda: nn.functional.dropout(numbers, 0.1))
    print(
        f"dropout of 4,096 x 512: torch {native:.1f} ours {milliseconds(lambda: ours(numbers)):.1f}"
    )


if __name__ == "__main__":
    main()
