"""Launches workers through torchrun, watches and restarts them, and reports why they died."""

import json
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import torch
from torch import distributed as dist
from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousTimeoutError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mtkit.console import report, say, warn
from mtkit.cpus import count_cpus
from mtkit.errors import MtkitError, explain_system_fault
from mtkit.network.device import count_threads
from mtkit.units import plural

FIX_AND_RERUN = "fix this, then run the same command again to resume from the last checkpoint"
_SAVING_SECONDS = 600
_FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Where torchrun's agent looks for a worker's error.
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_LAUNCHED_HERE = "MTKIT_LAUNCHED"
_FAULT = "mtkit"
_INTERRUPTED = 130
_AGENT = "torch.distributed.elastic"
# `-m mtkit` would look for modules in the current folder first, which may not be trusted.
_WORK = "import sys; sys.path[:] = {path!r}; from mtkit.cli.app import main; main()"
_LATER_SECONDS = 3_600
"""Seconds added to the error time of a worker that lost another; the earliest is reported."""


class LostProcessError(MtkitError):
    """Another process is gone, so an all-reduce isn't possible."""


def launch(
    arguments: Sequence[str],
    *,
    num_processes: int,
    needs_gpus: bool,
    num_nodes: int = 1,
    rendezvous: str = "",
    max_restarts: int = 0,
) -> None:
    """Runs `mtkit` with these arguments in several processes until all have ended.

    Ctrl-C and SIGTERM are forwarded to the workers, which save and exit. A second Ctrl-C ends this
    process at once, with exit code 130.

    Args:
        arguments: Each worker's command line.
        num_processes: Workers on this machine.
        needs_gpus: Whether each worker takes a GPU.
        num_nodes: How many machines train together; the same command runs on each.
        rendezvous: `HOST:PORT` on one of the machines.
        max_restarts: How often all workers are restarted after a failure.
    """
    check_gpus(num_processes if needs_gpus else 0)
    address = None
    if num_nodes > 1:
        address = _own_address(rendezvous)
        say(f"waiting at {rendezvous} for {num_nodes} machines to join")
    # torchrun's own lines repeat signals and exit codes that are reported below; each module has a
    # level.
    for name in [n for n in logging.root.manager.loggerDict if n.startswith(_AGENT)]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with (
        TemporaryDirectory(prefix="mtkit-workers-") as folder,
        _worker_environment(num_processes),
        _ending_at_second_interrupt(folder),
    ):
        config = LaunchConfig(
            min_nodes=num_nodes,
            max_nodes=num_nodes,
            nproc_per_node=num_processes,
            # All machines must use the same run id.
            run_id="mtkit",
            rdzv_backend="c10d",
            rdzv_endpoint=rendezvous or "localhost:0",
            local_addr=address,
            max_restarts=max_restarts,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-c", _WORK.format(path=sys.path), *arguments)
        except SignalException as stop:
            # After a stop, torchrun doesn't look at its workers' errors.
            fault = _find_fault(Path(folder))
            if fault is not None:
                raise fault from stop
        except ChildFailedError as error:
            raise _explain(error) from error
        except (RendezvousError, DistError) as error:
            place = rendezvous or "localhost"
            reason = (
                f"not all of the {num_nodes} machines joined in time"
                if isinstance(error, RendezvousTimeoutError)
                else "lost the rendezvous: its machine was stopped, or can't be reached "
                f"({_reason(error)})"
            )
            raise MtkitError(
                f"{place}: {reason}",
                "run the same command on each machine, with --rdzv set to a port of one machine "
                "that the others can reach; training resumes from the last checkpoint",
            ) from error


@contextmanager
def _worker_environment(num_processes: int) -> Iterator[None]:
    """Sets the environment for workers; restores it and the signal handlers afterwards."""
    for_workers = {
        "OMP_NUM_THREADS": str(max(1, count_threads() // num_processes)),
        # A save may take longer than torchrun's 30 seconds after a signal. torch reads this from
        # 2.12 on.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(_SAVING_SECONDS),
        # A store that outlives the workers doesn't give its address to a returning machine.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        # Its warnings are C++ stack traces; the process that notices reports the cause.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    added = {name: value for name, value in for_workers.items() if name not in os.environ}
    added[_LAUNCHED_HERE] = str(os.getpid())
    handlers = {number: signal.getsignal(number) for number in _FORWARDED_SIGNALS}
    os.environ.update(added)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name in added:
            del os.environ[name]


@contextmanager
def _ending_at_second_interrupt(folder: str) -> Iterator[None]:
    """Ends this process at a second Ctrl-C while the block runs, even if it waits."""
    # torchrun's agent waits for the workers again at each signal. The workers notice that their
    # launcher is gone. The temporary folder is removed first.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def count() -> None:
        num_interrupts = 0
        while numbers := reader.recv(64):
            num_interrupts += numbers.count(signal.SIGINT)
            if num_interrupts > 1:
                shutil.rmtree(folder, ignore_errors=True)
                say("interrupted")
                os._exit(_INTERRUPTED)

    thread = threading.Thread(target=count, name="interrupts", daemon=True)
    thread.start()
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        writer.close()
        thread.join()
        reader.close()


def _own_address(rendezvous: str) -> str:
    """Returns this machine's address on the route to the rendezvous."""
    host, _, port = rendezvous.rpartition(":")
    hint = "expected HOST:PORT of one of the machines"
    if not host or not port.isdecimal():
        raise MtkitError(f"--rdzv {rendezvous}: no host or no port", hint)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Nothing is sent: the system only chooses a route.
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError, OverflowError) as error:
        raise MtkitError(f"--rdzv {rendezvous}: {error}", hint) from error


def run_worker(work: Callable[[], object]) -> NoReturn:
    """Runs a worker and ends its process; the launcher prints its error.

    An OSError, such as a full disk, is passed on with the system's message and the path. A worker
    that lost another one dates its error later than the other's. Under a bare torchrun, and before
    a restart, the error is printed here.
    """
    if _count_restarts() and os.environ.get("RANK") == "0":
        warn(f"restart {_count_restarts()} of {os.environ.get('TORCHELASTIC_MAX_RESTARTS', '?')}")
    try:
        work()
    except (MtkitError, OSError) as error:
        fault = error if isinstance(error, MtkitError) else explain_system_fault(error)
        is_lost = isinstance(error, LostProcessError)
        if is_lost:
            # The launcher ends all workers as soon as one has ended: the root cause comes first.
            time.sleep(1)
        _report_fault(fault, is_late=is_lost)
        if dist.is_initialized():
            _end_at_once(1)
        raise SystemExit(1) from error
    _end_at_once(0)


def _end_at_once(code: int) -> NoReturn:
    """Ends this process without the interpreter's shutdown."""
    # Shutdown would abort if a thread is inside a call of torch: the watchdog in a call of the
    # store, or a thread of an open process group.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_worker(message: str) -> NoReturn:
    """Ends this process at once, whatever its main thread does; the launcher reports why."""
    try:
        _report_fault(MtkitError(message, FIX_AND_RERUN), is_late=False)
    finally:
        # The main thread may wait for ever. It would clean up nothing on disk: the next training
        # removes drafts of checkpoints.
        os._exit(1)


def _count_restarts() -> int:
    """Returns how often this worker's group was restarted."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _report_fault(fault: MtkitError, *, is_late: bool) -> None:
    max_restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if _LAUNCHED_HERE not in os.environ or _count_restarts() < max_restarts:
        report(fault)
    path = os.environ.get(_ERROR_FILE)
    if path:
        extra = {
            "timestamp": int(time.time()) + _LATER_SECONDS * is_late,
            _FAULT: [fault.message, fault.hint],
        }
        content = {"message": {"message": fault.message, "extraInfo": extra}}
        # The launcher may be gone, and its folder with it.
        with suppress(OSError):
            Path(path).write_text(json.dumps(content), "utf-8")


def _find_fault(folder: Path) -> MtkitError | None:
    """Returns the first error that a worker of the last start reported, if any."""
    starts = sorted(folder.glob("*/attempt_*"), key=lambda path: int(path.name.split("_")[-1]))
    if not starts:
        return None
    files = starts[-1].rglob("error.json")
    messages = [json.loads(path.read_text("utf-8"))["message"] for path in files]
    faults = [
        extra
        for message in messages
        if isinstance(message, dict) and _FAULT in (extra := message.get("extraInfo", {}))
    ]
    if not faults:
        return None
    return MtkitError(*min(faults, key=lambda fault: fault["timestamp"])[_FAULT])


def _explain(error: ChildFailedError) -> MtkitError:
    """Returns the error of the first failed worker, or how it died."""
    rank, failure = error.get_first_failure()
    content = failure.error_file_data.get("message")
    if isinstance(content, dict) and _FAULT in content.get("extraInfo", {}):
        return MtkitError(*content["extraInfo"][_FAULT])
    end = failure.signal_name() if failure.exitcode < 0 else f"exit code {failure.exitcode}"
    return MtkitError(
        f"worker {rank} (process {failure.pid} on {socket.gethostname()}) died: {end}",
        "its output is above; run the same command again to resume from the last checkpoint",
    )


def _reason(error: BaseException) -> str:
    """Returns the first line of an error, or of its cause."""
    cause = error.__cause__ or error
    return str(cause).strip().split("\n", 1)[0] or type(cause).__name__


def is_worker() -> bool:
    """Checks that torchrun started this process; it treats any exit code except 0 as a crash."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def find_launcher() -> int | None:
    """Returns the process that launched this worker; None under a bare torchrun."""
    launcher = os.environ.get(_LAUNCHED_HERE)
    return int(launcher) if launcher and is_worker() else None


def count_machines() -> int:
    """Returns how many machines train together."""
    return int(os.environ.get("GROUP_WORLD_SIZE", "1"))


def check_gpus(num_wanted: int) -> None:
    """Checks that this machine has enough GPUs."""
    num_gpus = torch.cuda.device_count()
    if num_gpus >= num_wanted:
        return
    found = plural(num_gpus, "GPU") if num_gpus else "no GPU"
    raise MtkitError(
        f"--gpus {num_wanted}: this machine has {found} that torch can use",
        f"use --gpus {num_gpus}"
        if num_gpus
        else f"train on the CPU: omit --gpus, or use --processes {count_cpus()}",
    )
