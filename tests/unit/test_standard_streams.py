import os
import subprocess
import sys
from pathlib import Path

_MEASURE = "from mtkit.standard_streams import measure_stdin; print(measure_stdin())"


def _measure(stdin: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], stdin=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_file_on_stdin_is_measured_from_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"0123456789")
    with path.open("rb") as stream:
        assert _measure(stream) == "10"
        os.lseek(stream.fileno(), 4, os.SEEK_SET)
        assert _measure(stream) == "6"


def test_of_a_pipe_nobody_knows_how_much_comes() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a line\n")
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert _measure(stream) == "None"
    assert _measure(subprocess.DEVNULL) == "None"
