"""Who is told to be at fault: the clock is the test's, the store torch's own."""

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from mtkit.training import watchdog as watch_module
from mtkit.training.watchdog import Progress, Watchdog


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watch_module, "time", clock)
    return clock


@pytest.fixture
def pair(clock: Clock) -> Iterator[list[Watchdog]]:
    """Two processes' watches, neither of whose threads runs."""
    store = dist.TCPStore("localhost", 0, is_master=True)
    watches = []
    for rank in range(2):
        progress = Progress()
        progress.beat("step 7")
        connection = dist.TCPStore("localhost", store.port, is_master=False)
        watch = Watchdog(connection, rank, 2, progress, pytest.fail)
        watch._stuck_after_seconds = 600.0
        watch.progress = progress
        watches.append(watch)
    yield watches
    # It lives as long as its host does.
    del store


def look(*watches: Watchdog) -> list[str]:
    for watch in watches:
        watch.look()
    return [watch.look() for watch in watches]


def test_those_that_come_on_are_left_in_peace(pair, clock) -> None:
    for _ in range(100):
        clock.seconds += 29.0
        for watch in pair:
            watch.progress.beat()
        assert look(*pair) == ["", ""]


def test_one_that_hangs_is_named_and_its_waiting_peer_isnt(pair, clock) -> None:
    first, second = pair
    assert look(first, second) == ["", ""]
    with first.progress.waiting():
        for _ in range(30):
            clock.seconds += 20.0
            said = look(first, second)
        assert said == ["", ""]
        clock.seconds += 1.0
        said = look(first, second)
    for sentence in said:
        assert sentence.startswith("worker 1 (process ")
        assert sentence.endswith("is stuck: 601 s without progress (step 7)")


def test_one_that_is_silent_is_named(pair, clock) -> None:
    first, second = pair
    look(first, second)
    first.look()
    clock.seconds += 30.0
    assert first.look() == ""
    clock.seconds += 1.0
    assert "worker 1 (process " in first.look()
    assert first.look().endswith("has not responded for 31 s")


def test_one_that_came_to_its_end_is_not_missed(pair, clock) -> None:
    first, second = pair
    look(first, second)
    second.stop()
    for _ in range(5):
        clock.seconds += 40.0
        assert first.look() == ""
    assert first.name_lost() == ""


def test_a_lost_one_is_named_after_some_seconds_of_silence(pair, clock) -> None:
    first, second = pair
    look(first, second)
    first.look()
    began_at = clock.seconds
    assert first.name_lost().startswith("worker 1 (process ")
    assert 4.0 < clock.seconds - began_at < 5.0


def test_all_waiting_for_each_other_is_the_networks_fault(pair, clock) -> None:
    first, second = pair
    with first.progress.waiting(), second.progress.waiting():
        for _ in range(31):
            clock.seconds += 20.0
            said = look(first, second)
    assert (
        said
        == ["all processes are waiting for each other: the network between them is failing"] * 2
    )
