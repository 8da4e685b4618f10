import re
from pathlib import Path

import pytest

from mtkit import memory

MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [
        (None, None, 8_000_000 * 1024),
        ("max\n", "5\n", 8_000_000 * 1024),
        ("4000000000\n", "1000000000\n", 3_000_000_000),
        ("400000000000\n", "1000000000\n", 8_000_000 * 1024),
        ("1000\n", "2000\n", 0),
    ],
)
@pytest.mark.parametrize("cached", [None, 0, 500])
def test_free_memory_is_the_machine_s_or_the_container_s(
    tmp_path: Path, monkeypatch, limit, used, expected, cached
) -> None:
    if cached is not None:
        (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\n", "ascii")
    if cached and expected == 3_000_000_000:
        expected += cached
    for name, content in (("meminfo", MEMINFO), ("memory.max", limit), ("memory.current", used)):
        if content is not None:
            (tmp_path / name).write_text(content, encoding="ascii")
    monkeypatch.setattr(memory, "_MEMORY_FILE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_LIMIT_FILE", tmp_path / "memory.max")
    monkeypatch.setattr(memory, "_USED_FILE", tmp_path / "memory.current")
    monkeypatch.setattr(memory, "_COUNTS_FILE", tmp_path / "memory.stat")
    assert memory.free_memory_bytes() == expected


@pytest.mark.parametrize("content", [None, "", "MemAvailable\n", "MemFree: 3 kB\n"])
def test_a_system_that_doesn_t_tell(tmp_path: Path, monkeypatch, content) -> None:
    if content is not None:
        (tmp_path / "meminfo").write_text(content, encoding="ascii")
    monkeypatch.setattr(memory, "_MEMORY_FILE", tmp_path / "meminfo")
    assert memory.free_memory_bytes() is None


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux's /proc")
def test_freed_memory_goes_back() -> None:
    def measure() -> int:
        status = Path("/proc/self/status").read_text("ascii")
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1])

    # Blocks below the C library's limit for a mapping of their own; one at the end stays.
    blocks = [b"x" * 100_000 + bytes([number]) for number in range(250)]
    last = b"x" * 100_001
    del blocks
    before = measure()
    memory.return_freed_memory()
    assert measure() < before - 15_000
    assert len(last) == 100_001
