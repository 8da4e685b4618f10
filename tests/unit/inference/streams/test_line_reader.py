import fcntl
import io
import os
import threading
from contextlib import contextmanager

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.streams.line_reader import read_byte_lines


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
    assert caught.value.message == "input line 3: more than 64 MiB without an end of line"
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
