"""The hardware of a training, and kinds of GPU with their manufacturers' figures, without torch."""

from dataclasses import dataclass

from mtkit.devices import DeviceKind
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.precision import TrainingPrecision, TrainingPrecisionChoice


@dataclass(frozen=True)
class Hardware:
    """The hardware of a training.

    Attributes:
        num_processes: Processes on this machine, one per GPU if `device` is `cuda`.
        device: `cpu`, `cuda` or `auto` (a GPU if there is one).
        num_nodes: How many machines train together.
        rendezvous: `HOST:PORT` where they meet; empty for one machine.
        max_restarts: How often failed processes are restarted.
    """

    num_processes: int = 1
    device: DeviceKind = "auto"
    num_nodes: int = 1
    rendezvous: str = ""
    max_restarts: int = 0

    @property
    def num_gpus(self) -> int:
        """The number of GPUs explicitly requested on this machine."""
        return self.num_processes if self.device == "cuda" else 0

    @property
    def needs_launcher(self) -> bool:
        """Whether training needs more than this process."""
        return self.num_processes > 1 or self.num_nodes > 1 or self.max_restarts > 0

    @property
    def options(self) -> list[str]:
        """The equivalent options of the command line."""
        options: list[str] = []
        if self.device != "auto":
            options += ["--gpus" if self.num_gpus else "--processes", str(self.num_processes)]
        if self.num_nodes > 1:
            options += ["--nodes", str(self.num_nodes), "--rdzv", self.rendezvous]
        if self.max_restarts:
            options += ["--max-restarts", str(self.max_restarts)]
        return options


@dataclass(frozen=True)
class Accelerator:
    """A kind of GPU, or this machine's CPU.

    Attributes:
        fp32_operations_per_second: Peak rate of matrix products in fp32.
        half_operations_per_second: In fp16 or bf16, without sparsity; None on a CPU without bf16.
        has_bf16: Whether it has products of bf16, not only of fp16.
        bytes_per_second: Memory bandwidth.
        link_bytes_per_second: Bandwidth to its neighbours in a machine, one way.
        is_measured: Whether the rate is what a network's layers reach here, not a data sheet's.
    """

    name: str
    fp32_operations_per_second: float
    half_operations_per_second: float | None
    has_bf16: bool
    memory_bytes: float
    bytes_per_second: float
    link_bytes_per_second: float
    is_measured: bool = False

    def resolve_precision(self, choice: TrainingPrecisionChoice) -> TrainingPrecision:
        """Returns the precision that `training.precision` gives on this GPU."""
        if choice == "auto":
            return "bf16" if self.has_bf16 else "fp32"
        is_supported = {"fp32": True, "bf16": self.has_bf16, "fp16": not self.is_measured}
        if not is_supported[choice]:
            raise MtkitError(
                f"--hardware {self.name}: it doesn't support {choice} (training.precision)",
                "it supports "
                + ", ".join(each for each in is_supported if is_supported[each])
                + "; --set training.precision=auto chooses one of them",
            )
        return choice

    def operations_per_second(self, precision: TrainingPrecision) -> float:
        """Returns the peak rate of matrix products in a supported precision."""
        rate = self.fp32_operations_per_second
        if precision != "fp32":
            assert self.half_operations_per_second is not None
            rate = self.half_operations_per_second
        return rate


def _describe(
    name: str, fp32: float, half: float, *sizes: float, has_bf16: bool = True
) -> Accelerator:
    """Returns a kind of GPU: TFLOP/s in fp32 and fp16, GB, GB/s of its memory and of its links."""
    size, memory, link = (1e9 * each for each in sizes)
    return Accelerator(name, fp32 * 1e12, half * 1e12, has_bf16, size, memory, link)


CPU = "cpu"
"""This machine's CPU in `mtkit plan --hardware`."""
# NVIDIA's data sheets and white papers. For server GPUs, the SXM forms with NVLink, whose rates
# they give for both ways together; the others use 16 lanes of PCIe.
ACCELERATORS = {
    "p100": _describe("P100", 10.6, 21.2, 16, 732, 80, has_bf16=False),
    "v100": _describe("V100", 15.7, 125, 32, 900, 150, has_bf16=False),
    "t4": _describe("T4", 8.1, 65, 16, 320, 16, has_bf16=False),
    "l4": _describe("L4", 30.3, 121, 24, 300, 32),
    "rtx3090": _describe("RTX 3090", 35.6, 71, 24, 936, 32),
    "rtx4090": _describe("RTX 4090", 82.6, 165, 24, 1008, 32),
    "a100": _describe("A100", 19.5, 312, 80, 2039, 300),
    "h100": _describe("H100", 66.9, 989, 80, 3350, 450),
    "h200": _describe("H200", 66.9, 989, 141, 4800, 450),
}
"""By their names in `mtkit plan --hardware`."""


def find_accelerator(name: str) -> Accelerator:
    """Returns a kind of GPU by its name, ignoring case."""
    found = ACCELERATORS.get(name.lower())
    if found is None:
        raise MtkitError(
            f"--hardware {name}: unknown GPU" + suggest(name, (CPU, *ACCELERATORS)),
            f"cpu for this machine's, or one of {', '.join(ACCELERATORS)}",
        )
    return found
