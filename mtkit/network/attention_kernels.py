"""Which of PyTorch's kernels computes attention on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ORDER = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
"""The first that can do what is asked is taken: FlashAttention (arXiv 2307.08691) without a mask,
the memory-efficient kernel (arXiv 2112.05682) with one, plain products for any other width.

cuDNN's, which PyTorch may take first on an H100 and later, is left out: it makes a plan for every
new shape, and sentences come in a new shape with every batch and at every step of a search.
"""


@contextmanager
def attention_kernels(device: torch.device) -> Iterator[None]:
    """Has attention on a GPU computed by the kernels of `ORDER`; elsewhere changes nothing.

    What another model in the same process takes is as it was when the block ends.
    """
    if device.type != "cuda":
        yield
        return
    with sdpa_kernel(list(ORDER), set_priority=True):
        yield
