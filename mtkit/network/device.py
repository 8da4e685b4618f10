"""Devices of networks, their memory, and suitable threads and precision."""

import os
import sys
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from mtkit.cpus import count_cpus
from mtkit.devices import read_device
from mtkit.errors import MtkitError
from mtkit.recipe.precision import Precision


def find_device(name: str) -> torch.device:
    """Returns the device of this name; `auto` is a GPU if there is one, else the CPU."""
    kind, index = read_device(name)
    if kind == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda" and (index or 0) >= torch.cuda.device_count():
        raise MtkitError(
            f"no device '{name}': {torch.cuda.device_count()} GPUs found", "use cpu or auto"
        )
    return torch.device(kind) if index is None else torch.device(kind, index)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device; the copy may still be running on a GPU's stream."""
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


_Sent = TypeVar("_Sent", bound="Sendable")


@dataclass(frozen=True)
class Sendable:
    """A dataclass of tensors, or of other Sendables."""

    def to(self: _Sent, device: torch.device) -> _Sent:
        """Returns it on a device; the copy may still be running on a GPU's stream."""
        parts = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return replace(self, **{name: _move(part, device) for name, part in parts.items()})


def _move(part: Any, device: torch.device) -> Any:
    if isinstance(part, Tensor):
        return send(part, device)
    return part.to(device) if isinstance(part, Sendable) else part


def count_threads() -> int:
    """Returns the useful number of threads: one per core, at most one per available CPU."""
    return min(torch.get_num_threads(), count_cpus())


def limit_threads(num_processes: int = 1) -> None:
    """Sets torch's threads to this process's share of the CPUs, unless `OMP_NUM_THREADS` is set."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, count_threads() // num_processes))


def limit_kernel_cache() -> None:
    """Limits oneDNN to a cache of 128 kernels, one per shape of a product."""
    # In training, shapes rarely recur: oneDNN's default of 1,024 needs half a gigabyte more and is
    # no faster (docs/log.md). `ONEDNN_PRIMITIVE_CACHE_CAPACITY`, read at the first product, takes
    # precedence.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")


def choose_fastest_precision(device: torch.device) -> Precision:
    """Returns the fastest precision on a device: bf16 if it has such products."""
    if device.type == "cuda":
        is_quick = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        # Other CPUs gain little or, if they emulate it, lose much (docs/log.md).
        is_quick = device.type == "cpu" and _multiplies_bfloat16()
    return "bf16" if is_quick else "fp32"


def emulates_bfloat16(device: torch.device) -> bool:
    """Checks that a device only emulates bfloat16 arithmetic."""
    if device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"):
        return False
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _multiplies_bfloat16() -> bool:
    """Checks that the CPU has instructions for products of bfloat16: AMX or AVX512."""
    # torch has these under private names.
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        is_supported = getattr(torch.cpu, name, None)
        if is_supported is not None and is_supported():
            return not emulates_bfloat16(torch.device("cpu"))
    return False


_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "bad_alloc",
    "not enough memory",
    "alloc_failed",
    # oneDNN's message if it has no memory for a kernel.
    "could not create a primitive",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Checks that an error means out of memory, of a GPU or of the machine."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _OUT_OF_MEMORY)


def release_memory(device: torch.device) -> None:
    """Returns a GPU's unused cached memory to the driver."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def peak_memory_bytes(device: torch.device) -> int:
    """Returns the peak memory of this process, on its GPU or the machine; 0 if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource  # noqa: PLC0415
    except ModuleNotFoundError:
        return 0
    # macOS counts in bytes, all others in kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
