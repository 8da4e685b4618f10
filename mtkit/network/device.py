"""Devices that a network runs on, the threads and precision that suit them, and their memory."""

import os
import sys
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from mtkit.devices import read_device
from mtkit.errors import MtkitError
from mtkit.processors import count_processors
from mtkit.recipe.precision import Precision


def find_device(name: str) -> torch.device:
    """Returns the device of this name; for `auto` a GPU where there is one, else the CPU.

    Raises:
        MtkitError: There is no such device.
    """
    kind, index = read_device(name)
    if kind == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda" and (index or 0) >= torch.cuda.device_count():
        raise MtkitError(
            f"no device '{name}': {torch.cuda.device_count()} GPUs found", "use cpu or auto"
        )
    return torch.device(kind) if index is None else torch.device(kind, index)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device; the copy may still be under way on a GPU's stream."""
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


_Sent = TypeVar("_Sent", bound="Sendable")


@dataclass(frozen=True)
class Sendable:
    """A dataclass of tensors, or of further ones that can be sent to a device."""

    def to(self: _Sent, device: torch.device) -> _Sent:
        """Returns it on a device; the copy may still be under way on a GPU's stream."""

        def move(part: Any) -> Any:
            if isinstance(part, Tensor):
                return send(part, device)
            return part.to(device) if isinstance(part, Sendable) else part

        moved = {each.name: move(getattr(self, each.name)) for each in fields(self) if each.init}
        return replace(self, **moved)


def count_threads() -> int:
    """Returns how many threads this process has use for, where nobody has set their number.

    One a core: torch leaves out a core's second hyperthread. No more than there are processors.
    """
    return min(torch.get_num_threads(), count_processors())


def limit_threads(num_processes: int = 1) -> None:
    """Sets torch's threads to this process's part of the threads that the machine has use for.

    `OMP_NUM_THREADS`, which `mtkit train --processes` sets too, overrules it.

    Args:
        num_processes: Processes that share the machine.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, count_threads() // num_processes))


def limit_kernel_cache() -> None:
    """Limits oneDNN to 128 of the kernels that it makes, one for each shape of a product.

    In training a batch's shapes hardly come again: the 1,024 that it keeps by itself take half a
    gigabyte more and no less time (docs/log.md). `ONEDNN_PRIMITIVE_CACHE_CAPACITY`, which oneDNN
    reads at its first product, overrules it.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")


def suit_precision(device: torch.device) -> Precision:
    """Returns the precision that a device is quickest in: bf16 where it multiplies in it."""
    if device.type == "cuda":
        is_quick = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        # Anywhere else it gains little or, imitated, loses all (docs/log.md).
        is_quick = device.type == "cpu" and _multiplies_bfloat16()
    return "bf16" if is_quick else "fp32"


def is_imitated(device: torch.device) -> bool:
    """Checks that a device has no bfloat16 arithmetic at all."""
    if device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"):
        return False
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _multiplies_bfloat16() -> bool:
    """Checks that the processor has instructions for products of bfloat16: AMX or AVX512."""
    # Torch has these under private names.
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        is_supported = getattr(torch.cpu, name, None)
        if is_supported is not None and is_supported():
            return not is_imitated(torch.device("cpu"))
    return False


_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "bad_alloc",
    "not enough memory",
    "alloc_failed",
    # What oneDNN says where it finds no room for a kernel.
    "could not create a primitive",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Checks that an error says that memory could not be had, of a GPU or of the machine."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _OUT_OF_MEMORY)


def release_memory(device: torch.device) -> None:
    """Hands memory that no tensor holds back to a GPU."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def peak_memory_bytes(device: torch.device) -> int:
    """Returns the most memory that this process has held so far: of its GPU, or of the machine.

    On a system that doesn't report it, that is 0.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource  # noqa: PLC0415
    except ModuleNotFoundError:
        return 0
    # macOS counts in bytes, all others in kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
