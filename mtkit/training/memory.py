"""How much memory training takes, and whether there is none left."""

import sys

import torch

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
