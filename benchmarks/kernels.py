"""Measures attention forward and backward, and dropout forward, ours against PyTorch's own."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtkit.network.cpu.attention import attend_on_cpu, split_grids
from mtkit.network.sublayers import Dropout

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


def attend(backend: SDPBackend | None, shape: tuple[int, ...], dtype: torch.dtype) -> float:
    """Returns the time from a projection's output to heads side by side again, and back.

    Args:
        backend: PyTorch's kernel; ours where it is None.
        shape: Sentences, tokens of each, heads, and the width of one.
        dtype: Of all numbers.
    """
    batch_size, length, num_heads, d_head = shape
    width = num_heads * d_head
    projected = torch.randn(batch_size, length, 3 * width, dtype=dtype, requires_grad=True)
    mask = torch.ones(batch_size, 1, 1, length, dtype=torch.bool)
    gradient = torch.randn(batch_size, length, width, dtype=dtype)

    def work() -> None:
        merge(forward()).backward(gradient)

    def forward() -> Tensor:
        if backend is None:
            parts = split_grids(projected, num_heads, (width,) * 3, ((batch_size, length),))
            return attend_on_cpu(*(part[0] for part in parts), is_visible=mask, dropout=0.0)
        heads = projected.view(batch_size, length, 3, num_heads, d_head).transpose(1, 3)
        with sdpa_kernel(backend):
            return nn.functional.scaled_dot_product_attention(*heads.unbind(dim=2), attn_mask=mask)

    return milliseconds(work)


def merge(heads: Tensor) -> Tensor:
    """Returns heads side by side."""
    return heads.transpose(1, 2).flatten(2)


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; milliseconds, best of")
    print(f"{_REPEATS}; attention with a mask, from projection to merged heads, and back")
    for dtype in (torch.float32, torch.bfloat16):
        for shape in _SIZES:
            flash = attend(SDPBackend.FLASH_ATTENTION, shape, dtype)
            plain = attend(SDPBackend.MATH, shape, dtype)
            ours = attend(None, shape, dtype)
            print(
                f"{dtype} batch, length, heads, d_head {shape}: fused {flash:.1f}, plain products "
                f"{plain:.1f}, ours {ours:.1f}"
            )
    numbers, residual = torch.randn(4096, 512), torch.randn(4096, 512)
    dropout = Dropout(0.1).train()
    print(
        "dropout of 4,096 x 512, added to a residual, forward: torch "
        f"{milliseconds(lambda: residual + nn.functional.dropout(numbers, 0.1)):.1f}, ours "
        f"{milliseconds(lambda: dropout.add(residual, numbers)):.1f}"
    )


if __name__ == "__main__":
    main()
