"""Attacks on a real server: others are answered meanwhile, and it never stands still."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from .attacks import LONG, Attack, list_attacks
from .conftest import Repeating, Target

MAX_CALLBACK_SECONDS = 0.05
"""Processor time of the event loop's longest callback, on a machine that is not busy."""
BLOCKED_SECONDS = 0.5
"""A callback that takes longer is a fault on any machine."""
MAX_BYTES = 1_500_000_000
_HELD_SECONDS = 1.0


@contextmanager
def attacking(target: Target, attack: Attack) -> Iterator[None]:
    """Attacks while a block runs, and waits for the answers."""
    key = target.attackers_key if attack.has_key else ""
    for _ in range(attack.repeats - 1):
        _send_all(target, attack, key)
    threads = [
        threading.Thread(target=_send, args=(target.port, request, attack.stalls))
        for request in attack.requests(key)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def _send_all(target: Target, attack: Attack, key: str) -> None:
    for request in attack.requests(key):
        _send(target.port, request, attack.stalls)


def _send(port: int, request: bytes, stalls: bool) -> None:
    """Sends a request and reads what comes, or holds the connection open for a while."""
    with ExitStack() as stack, suppress(OSError):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=150))
        connection.sendall(request)
        if stalls:
            time.sleep(_HELD_SECONDS)
        else:
            while connection.recv(1 << 16):
                pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(
            attack, id=attack.name, marks=[pytest.mark.patient] if attack.name in LONG else []
        )
        for attack in list_attacks()
    ],
)
@pytest.mark.parametrize(
    "max_seconds",
    [BLOCKED_SECONDS, pytest.param(MAX_CALLBACK_SECONDS, marks=pytest.mark.patient)],
)
def test_others_are_answered_under_attack(
    target: Target, attack: Attack, max_seconds: float
) -> None:
    expected, since = target.ask(), time.monotonic()
    with Repeating(target.ask) as others, attacking(target, attack):
        pass
    assert target.ask() == expected
    assert all(found == expected for found in others.results)
    long = sorted(target.list_callbacks(since), reverse=True)
    assert not long or long[0][0] < max_seconds, long[:3]
    assert target.count_bytes() < MAX_BYTES
    assert target.client.get("/ready").status_code == 200
