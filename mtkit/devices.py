"""Names of devices, as on the command line."""

import re
from typing import Literal

from mtkit.errors import MtkitError

DeviceKind = Literal["auto", "cpu", "cuda"]


def read_device(name: str) -> tuple[str, int | None]:
    """Returns `auto`, `cpu` or `cuda`, and the GPU's index if the name has one."""
    # torch stores an index in a byte: 250 would become negative.
    match = re.fullmatch(r"cuda:(\d\d?)", name)
    if match is not None:
        return "cuda", int(match[1])
    if name in ("auto", "cpu", "cuda"):
        return name, None
    raise MtkitError(f"no device '{name}'", "expected auto, cpu, cuda or cuda:1")
