"""What a run trains on; torch-free, so that a command can settle it before it loads torch."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hardware:
    """What to train on.

    Attributes:
        num_processes: Processes that share the work, one a GPU where `device` is `cuda`.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.
    """

    num_processes: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @property
    def num_gpus(self) -> int:
        """How many GPUs were asked for by number; 0 where none were."""
        return self.num_processes if self.device == "cuda" else 0
