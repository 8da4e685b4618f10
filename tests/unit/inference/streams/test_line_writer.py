import os
import signal
import threading
import time
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.streams.line_writer import write_lines

LINES = b"".join(b"%06d\n" % number for number in range(100_000))
"""More than a pipe holds."""


def read_slowly(descriptor: int, found: list[bytes]) -> None:
    while some := os.read(descriptor, 1 << 14):
        found.append(some)
        time.sleep(0.001)


@pytest.mark.parametrize("buffering", [-1, 0])
@pytest.mark.parametrize("is_blocking", [True, False])
def test_all_lines_are_written_whatever_the_stream(buffering, is_blocking):
    reads, writes = os.pipe()
    os.set_blocking(writes, is_blocking)
    found: list[bytes] = []
    reader = threading.Thread(target=read_slowly, args=(reads, found))
    reader.start()
    with os.fdopen(writes, "wb", buffering=buffering) as target:
        write_lines(target, LINES, num_before=0)
    reader.join()
    os.close(reads)
    assert b"".join(found) == LINES


def test_a_first_ctrl_c_waits_for_the_lines_to_be_whole():
    reads, writes = os.pipe()
    found: list[bytes] = []

    def interrupt() -> None:
        # The pipe is full: the lines are half written.
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        read_slowly(reads, found)

    timer = threading.Timer(0.3, interrupt)
    before = signal.getsignal(signal.SIGINT)
    timer.start()
    with os.fdopen(writes, "wb") as target, pytest.raises(KeyboardInterrupt):
        write_lines(target, LINES, num_before=0)
    timer.join()
    os.close(reads)
    assert b"".join(found) == LINES
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_heard_at_once():
    reads, writes = os.pipe()
    before = signal.getsignal(signal.SIGINT)
    is_over = threading.Event()

    def interrupt() -> None:
        # Two that come before Python has seen the first count as one: so as many as it takes.
        while not is_over.wait(0.5):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with os.fdopen(writes, "wb", buffering=0) as target, pytest.raises(KeyboardInterrupt):
        # Nobody reads.
        write_lines(target, LINES, num_before=0)
    is_over.set()
    thread.join()
    os.close(reads)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_what_cannot_be_written_says_how_many_lines_were():
    with pytest.raises(MtkitError) as caught, Path("/dev/full").open("wb", buffering=0) as target:
        write_lines(target, b"a\n", num_before=2_048)
    assert caught.value.message == (
        "can't write the output after 2,048 lines: No space left on device"
    )
    assert "it begins with the first line" in caught.value.hint


def test_a_reader_that_has_gone_is_no_fault_of_the_user_s():
    reads, writes = os.pipe()
    os.close(reads)
    with pytest.raises(BrokenPipeError), os.fdopen(writes, "wb", buffering=0) as target:
        write_lines(target, b"a\n", num_before=0)
