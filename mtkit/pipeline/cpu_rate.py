"""Measures this machine's CPU for `mtkit plan`."""

import time

import numpy as np
import torch
from torch import nn

from mtkit.memory import count_memory_bytes
from mtkit.network.device import choose_fastest_precision, count_threads
from mtkit.pipeline.hardware import Accelerator
from mtkit.pipeline.line_teacher import one_thread
from mtkit.recipe.model import Model
from mtkit.units import plural

_LENGTH = 32
_NUM_SENTENCES = 16
_NUM_TIMED = 3
_BYTES_PER_SECOND = 10e9
"""Assumed memory bandwidth; Adam takes a few percent of an update."""


def measure_cpu(model: Model) -> Accelerator:
    """Returns this CPU with the rate that layers of a network's width reach on all cores.

    A layer's passes are timed on one thread, as training runs a process per core.
    """
    num_cores, precision = count_threads(), choose_fastest_precision(torch.device("cpu"))
    with one_thread():
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        rate = num_cores * _measure_layer(model, dtype)
    return Accelerator(
        f"this CPU ({plural(num_cores, 'core')})",
        fp32_operations_per_second=rate,
        half_operations_per_second=rate if precision == "bf16" else None,
        has_bf16=precision == "bf16",
        memory_bytes=count_memory_bytes() or 0.0,
        bytes_per_second=_BYTES_PER_SECOND,
        link_bytes_per_second=_BYTES_PER_SECOND,
        is_measured=True,
    )


def _measure_layer(model: Model, dtype: torch.dtype) -> float:
    """Returns the operations per second of a layer's products, forward and backward."""
    layer = nn.TransformerEncoderLayer(
        model.d_model, model.num_heads, model.d_ff, model.dropout, batch_first=True, dtype=dtype
    )
    states = torch.randn(_NUM_SENTENCES, _LENGTH, model.d_model, dtype=dtype)
    elapsed = []
    for _ in range(_NUM_TIMED + 1):
        began_at = time.process_time()
        layer(states).sum().backward()
        elapsed.append(time.process_time() - began_at)
    # CPU time, whatever else is running; the first is a warm-up. Six operations per weight
    # and token: two forward, four backward.
    num_weights = sum(weight.numel() for weight in layer.parameters() if weight.dim() > 1)
    num_tokens = _NUM_SENTENCES * _LENGTH
    return 6.0 * num_weights * num_tokens / float(np.median(elapsed[1:]))
