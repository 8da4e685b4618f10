"""The watchdog: processes that train together report to each other, independently of training.

An all-reduce waits for all processes. If one has died on another machine, or hangs, the others
would wait for hours without knowing for which. So a thread in each process reports its progress
every second, through torchrun's store, and reads the others' reports. It ends its process and names
the cause if

* another process hasn't responded for half a minute;
* a process, this one included, has made no progress for longer than allowed;
* the launcher is gone, so that nothing else would end its processes.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from torch.distributed.distributed_c10d import Store

from mtkit.child_processes import watch_parent

_PERIOD_SECONDS = 1.0
_LOST_AFTER_SECONDS = 30.0
_STORE_SECONDS = 20.0
_NAMING_SECONDS = 8.0
_SILENT_SECONDS = 4.0


@dataclass(frozen=True)
class Heartbeat:
    """The report of a process to the others.

    Attributes:
        beats: Number of the report.
        stalled_seconds: Seconds without progress.
        is_waiting: Whether it waits for the others.
        doing: Its activity, for messages.
        has_left: Whether it has finished.
    """

    pid: int
    host: str
    beats: int
    stalled_seconds: float
    is_waiting: bool
    doing: str
    has_left: bool = False


@dataclass
class Progress:
    """The progress of this process; its main thread writes, its watchdog reads."""

    doing: str = "starting"
    is_waiting: bool = False
    changed_at: float = 0.0

    def beat(self, doing: str | None = None) -> None:
        """Notes progress; `doing` names the next activity."""
        self.changed_at = time.monotonic()
        if doing is not None:
            self.doing = doing

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Marks this process as waiting for others while the block runs."""
        self.beat()
        self.is_waiting = True
        try:
            yield
        finally:
            self.is_waiting = False
            self.beat()


class Watchdog:
    """The thread that reports this process to the others and watches them.

    `store` needs a connection that nothing else uses. `end` is called with a message, from this
    thread, if training can't continue; it must not return. `launcher` is the process that started
    this one: it may be gone by now.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        count: int,
        progress: Progress,
        end: Callable[[str], None],
        *,
        launcher: int | None = None,
    ) -> None:
        self._store = store
        self._rank = rank
        self._count = count
        self._progress = progress
        self._end = end
        self._stuck_after_seconds = float("inf")
        self._beats = 0
        self._heartbeats: dict[int, Heartbeat] = {}
        self._heard_at: dict[int, float] = {}
        self._is_launcher_gone = watch_parent(launcher)
        self._stopping = threading.Event()
        store.set_timeout(timedelta(seconds=_STORE_SECONDS))
        self._report()
        self._answered_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self, stuck_after_seconds: float) -> None:
        """Starts the thread."""
        self._stuck_after_seconds = stuck_after_seconds
        self._thread.start()

    def stop(self) -> None:
        """Reports that this process has ended, and ends the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_PERIOD_SECONDS * 5)
        try:
            self._report(has_left=True)
        except RuntimeError:
            # The launcher keeps the store, and may have ended it.
            return

    def name_lost(self) -> str:
        """Returns a phrase that names the silent processes; empty without any.

        Waits some seconds for one to be silent for long enough. The store is on process 0's
        machine: if the store doesn't answer, process 0 is lost.
        """
        give_up_at = time.monotonic() + _NAMING_SECONDS
        while time.monotonic() < give_up_at:
            now = time.monotonic()
            if self._rank and now - self._answered_at > _SILENT_SECONDS:
                return self._name(0) if 0 in self._heartbeats else "worker 0"
            silent = [
                rank
                for rank, heard_at in self._heard_at.items()
                if rank != self._rank
                and now - heard_at > _SILENT_SECONDS
                and not self._heartbeats[rank].has_left
            ]
            if silent:
                return ", ".join(self._name(rank) for rank in silent)
            time.sleep(0.2)
        return ""

    def _run(self) -> None:
        while not self._stopping.wait(_PERIOD_SECONDS):
            if self._is_launcher_gone():
                self._end("this process's launcher is gone")
            fault = self.look()
            if fault and not self._stopping.is_set():
                self._end(fault)

    def look(self) -> str:
        """Reports; returns why training can't continue, or an empty string."""
        try:
            self._report()
            self._listen()
        except RuntimeError as error:
            if time.monotonic() - self._answered_at > _LOST_AFTER_SECONDS:
                return f"lost the machine of worker 0, where the rendezvous is: {error}"
            return ""
        self._answered_at = time.monotonic()
        return self._find_fault()

    def _report(self, *, has_left: bool = False) -> None:
        self._beats += 1
        progress = self._progress
        heartbeat = Heartbeat(
            pid=os.getpid(),
            host=socket.gethostname(),
            beats=self._beats,
            stalled_seconds=time.monotonic() - progress.changed_at if progress.changed_at else 0.0,
            is_waiting=progress.is_waiting,
            doing=progress.doing,
            has_left=has_left,
        )
        self._store.set(f"heartbeat/{self._rank}", json.dumps(asdict(heartbeat)))

    def _listen(self) -> None:
        reported: list[Any] = self._store.multi_get(
            [f"heartbeat/{rank}" for rank in range(self._count)]
        )
        now = time.monotonic()
        for rank, content in enumerate(reported):
            heartbeat = Heartbeat(**json.loads(content))
            if rank not in self._heartbeats or self._heartbeats[rank].beats != heartbeat.beats:
                self._heard_at[rank] = now
            self._heartbeats[rank] = heartbeat

    def _find_fault(self) -> str:
        """Returns why training can't continue, or an empty string."""
        now = time.monotonic()
        at_work = {
            rank: heartbeat
            for rank, heartbeat in self._heartbeats.items()
            if not heartbeat.has_left
        }
        for rank in at_work:
            silent_seconds = now - self._heard_at[rank]
            if silent_seconds > _LOST_AFTER_SECONDS:
                return f"{self._name(rank)} has not responded for {silent_seconds:.0f} s"
        stalled = {
            rank: heartbeat
            for rank, heartbeat in at_work.items()
            if heartbeat.stalled_seconds > self._stuck_after_seconds
        }
        for rank, heartbeat in stalled.items():
            if not heartbeat.is_waiting:
                seconds = heartbeat.stalled_seconds
                return (
                    f"{self._name(rank)} is stuck: {seconds:.0f} s without progress "
                    f"({heartbeat.doing})"
                )
        if at_work and stalled.keys() == at_work.keys():
            return "all processes are waiting for each other: the network between them is failing"
        return ""

    def _name(self, rank: int) -> str:
        heartbeat = self._heartbeats[rank]
        return f"worker {rank} (process {heartbeat.pid} on {heartbeat.host})"
