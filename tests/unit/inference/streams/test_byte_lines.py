import fcntl
import io
import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.streams.byte_lines import read_byte_lines, write_lines


@contextmanager
def pipe(*, is_blocking: bool = True):
    """Yields a file to read, and a descriptor to write what it holds."""
    reads, writes = os.pipe()
    os.set_blocking(reads, is_blocking)
    with os.fdopen(reads, "rb") as source:
        yield source, writes


def test_lines_longer_than_what_is_read_at_once_stay_whole():
    long, longer = b"x" * 70_000, b"y" * 200_000
    text = io.BytesIO(long + b"\n" + longer + b"\nz")
    assert [line for window in read_byte_lines(text) for line in window] == [long, longer, b"z"]


def test_input_without_an_end_of_line_is_refused_before_memory_ends():
    class Endless(io.RawIOBase):
        given = 0

        def read1(self, size: int) -> bytes:
            self.given += size
            return b"a\n\nx" if self.given == size else b"x" * size

    endless = Endless()
    windows = read_byte_lines(endless)
    assert next(windows) == [b"a", b""]
    # Two lines are answered long before: after a MiB without another end of line.
    assert endless.given < 1 << 21
    with pytest.raises(MtkitError) as caught:
        next(windows)
    assert caught.value.message == "input line 3: more than 64 MiB without a line break"
    assert endless.given < 1 << 27


def test_whole_lines_are_not_held_while_the_end_of_another_is_awaited():
    # The first read ends with the 64 KiB that are taken at once, whole lines and the beginning of
    # one; the second finds no end of a line.
    line = b"x" * 99 + b"\n"
    with pipe() as (source, writes):
        # A pipe holds 64 KiB unless it is told otherwise.
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 1 << 18)
        os.write(writes, line * 655 + b"y" * 136)
        windows = read_byte_lines(source)
        assert next(windows) == [line[:-1]] * 655
        os.write(writes, b"z\n")
        assert next(windows) == [b"y" * 136 + b"z"]
        os.close(writes)
        assert list(windows) == []


def test_a_pause_of_a_pipe_that_does_not_wait_is_not_its_end():
    with pipe(is_blocking=False) as (source, writes):
        windows = read_byte_lines(source)
        os.write(writes, b"a\n")
        assert next(windows) == [b"a"]
        later = threading.Timer(0.2, lambda: (os.write(writes, b"b\nc"), os.close(writes)))
        later.start()
        # The end may have come before the second line is looked for.
        assert [line for window in windows for line in window] == [b"b", b"c"]
        later.join()


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
    assert "it starts from the first line" in caught.value.hint


def test_a_reader_that_has_gone_is_no_fault_of_the_user_s():
    reads, writes = os.pipe()
    os.close(reads)
    with pytest.raises(BrokenPipeError), os.fdopen(writes, "wb", buffering=0) as target:
        write_lines(target, b"a\n", num_before=0)
