"""Kinds of GPU, as their makers describe them."""

from dataclasses import dataclass

from mtkit.errors import MtkitError, suggest


@dataclass(frozen=True)
class Accelerator:
    """A kind of GPU.

    Attributes:
        name: As it is sold.
        operations_per_second: Greatest rate of matrix products without sparsity, in what mtkit
            computes in there: bf16, or fp32 where it has none.
        is_half: Whether that is bf16.
        memory_bytes: Its memory.
        bytes_per_second: How fast it reads and writes that.
        link_bytes_per_second: How fast it sends to its neighbours within a machine, one way.
    """

    name: str
    operations_per_second: float
    is_half: bool
    memory_bytes: float
    bytes_per_second: float
    link_bytes_per_second: float


_GB, _TERA = 1e9, 1e12

# NVIDIA's data sheets: the SXM forms with NVLink, whose rates they give for both ways together.
ACCELERATORS = {
    "p100": Accelerator("P100", 10.6 * _TERA, False, 16 * _GB, 732 * _GB, 80 * _GB),
    "v100": Accelerator("V100", 15.7 * _TERA, False, 32 * _GB, 900 * _GB, 150 * _GB),
    "a100": Accelerator("A100", 312 * _TERA, True, 80 * _GB, 2039 * _GB, 300 * _GB),
    "h100": Accelerator("H100", 989 * _TERA, True, 80 * _GB, 3350 * _GB, 450 * _GB),
    "h200": Accelerator("H200", 989 * _TERA, True, 141 * _GB, 4800 * _GB, 450 * _GB),
}
"""By the name that `mtkit plan --hardware` takes."""


def find_accelerator(name: str) -> Accelerator:
    """Returns a kind of GPU by its name, in whatever case.

    Raises:
        MtkitError: None is known by it.
    """
    found = ACCELERATORS.get(name.lower())
    if found is None:
        raise MtkitError(
            f"--hardware {name}: no such kind of GPU is known" + suggest(name, ACCELERATORS),
            f"one of {', '.join(ACCELERATORS)}; of this very machine, `mtkit train --dry-run` "
            "measures some updates",
        )
    return found
