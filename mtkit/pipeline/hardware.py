"""The hardware of a training; resolved by a command before it loads torch."""

from dataclasses import dataclass

from mtkit.devices import DeviceKind


@dataclass(frozen=True)
class Hardware:
    """The hardware of a training.

    Attributes:
        num_processes: Processes on this machine that share the work, one a GPU where `device` is
            `cuda`.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.
        num_nodes: How many machines train together.
        rendezvous: `HOST:PORT` where they meet; empty for one machine.
        max_restarts: How often processes that failed are started again.
    """

    num_processes: int = 1
    device: DeviceKind = "auto"
    num_nodes: int = 1
    rendezvous: str = ""
    max_restarts: int = 0

    @property
    def num_gpus(self) -> int:
        """How many GPUs of this machine were asked for by number; 0 where none were."""
        return self.num_processes if self.device == "cuda" else 0

    @property
    def needs_launcher(self) -> bool:
        """Whether training takes more than this process."""
        return self.num_processes > 1 or self.num_nodes > 1 or self.max_restarts > 0

    @property
    def options(self) -> list[str]:
        """The command line's options that come to the same."""
        options: list[str] = []
        if self.device != "auto":
            options += ["--gpus" if self.num_gpus else "--processes", str(self.num_processes)]
        if self.num_nodes > 1:
            options += ["--nodes", str(self.num_nodes), "--rdzv", self.rendezvous]
        if self.max_restarts:
            options += ["--max-restarts", str(self.max_restarts)]
        return options
