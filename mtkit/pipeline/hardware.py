"""The hardware of a training, and kinds of GPU with their makers' figures, without torch."""

from dataclasses import dataclass

from mtkit.devices import DeviceKind
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.precision import Precision, PrecisionChoice


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
        bf16_operations_per_second: In bf16, summed in fp32, without sparsity; None if unsupported.
        bytes_per_second: Memory bandwidth.
        link_bytes_per_second: Bandwidth to its neighbours in a machine, one way.
        is_measured: Whether the rate is what a network's layers reach here, not a data sheet's.
    """

    name: str
    fp32_operations_per_second: float
    bf16_operations_per_second: float | None
    memory_bytes: float
    bytes_per_second: float
    link_bytes_per_second: float
    is_measured: bool = False

    def resolve_precision(self, precision: PrecisionChoice) -> Precision:
        """Returns the precision that `training.precision` gives on this GPU."""
        has_bf16 = self.bf16_operations_per_second is not None
        if precision == "bf16" and not has_bf16:
            raise MtkitError(
                f"--hardware {self.name}: it doesn't support bf16 (training.precision)",
                "--set training.precision=auto uses fp32 there",
            )
        return "bf16" if has_bf16 and precision != "fp32" else "fp32"

    def operations_per_second(self, precision: Precision) -> float:
        """Returns the peak rate of matrix products in a supported precision."""
        rate = self.fp32_operations_per_second
        if precision == "bf16":
            assert self.bf16_operations_per_second is not None
            rate = self.bf16_operations_per_second
        return rate


def _describe(
    name: str,
    teraflops: tuple[float, float | None],
    *,
    gigabytes: float,
    memory_rate: float,
    link_rate: float,
) -> Accelerator:
    """Returns a kind of GPU from fp32 and bf16 rates in TFLOP/s, and others in GB/s."""
    fp32, bf16 = teraflops
    return Accelerator(
        name,
        fp32 * 1e12,
        None if bf16 is None else bf16 * 1e12,
        gigabytes * 1e9,
        memory_rate * 1e9,
        link_rate * 1e9,
    )


CPU = "cpu"
"""This machine's CPU in `mtkit plan --hardware`."""
# NVIDIA's data sheets and white papers. For server GPUs, the SXM forms with NVLink, whose rates
# they give for both ways together; the others use 16 lanes of PCIe.
ACCELERATORS = {
    "p100": _describe("P100", (10.6, None), gigabytes=16, memory_rate=732, link_rate=80),
    "v100": _describe("V100", (15.7, None), gigabytes=32, memory_rate=900, link_rate=150),
    "t4": _describe("T4", (8.1, None), gigabytes=16, memory_rate=320, link_rate=16),
    "l4": _describe("L4", (30.3, 121), gigabytes=24, memory_rate=300, link_rate=32),
    "rtx3090": _describe("RTX 3090", (35.6, 71), gigabytes=24, memory_rate=936, link_rate=32),
    "rtx4090": _describe("RTX 4090", (82.6, 165), gigabytes=24, memory_rate=1008, link_rate=32),
    "a100": _describe("A100", (19.5, 312), gigabytes=80, memory_rate=2039, link_rate=300),
    "h100": _describe("H100", (66.9, 989), gigabytes=80, memory_rate=3350, link_rate=450),
    "h200": _describe("H200", (66.9, 989), gigabytes=141, memory_rate=4800, link_rate=450),
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
