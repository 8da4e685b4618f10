import sqlite3
import stat
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.llm.cache import AnswerCache, make_cache_key


def test_answers_are_there_for_the_next_program(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "cache"
    first, second = AnswerCache(folder, 1 << 20), AnswerCache(folder, 1 << 20)
    first.put("x", {"content": "Ä\ud800"})
    assert second.find("x") == {"content": "Ä\ud800"}
    assert second.find("y") is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_oldest_answers_go(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path, 1_000)
    for number in range(100):
        cache.put(str(number), "x" * 98)
    kept = [number for number in range(100) if cache.find(str(number)) is not None]
    assert kept == list(range(100 - len(kept), 100))
    assert 8 <= len(kept) <= 10


def test_a_folder_that_is_no_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_bytes(b"no database" * 1_000)
    with pytest.raises(MtkitError, match=r"(?s)not a database") as found:
        AnswerCache(tmp_path, 1_000)
    assert "rm -r" in found.value.hint


def test_a_full_disk_is_an_error_and_not_a_lost_answer(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path, 1 << 20)
    with sqlite3.connect(tmp_path / "answers.sqlite") as other:
        pages = other.execute("PRAGMA page_count").fetchone()[0]
    cache._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(MtkitError, match="full"):
        cache.put("x", "y" * 100_000)


def test_a_request_s_name_depends_on_all_of_it() -> None:
    names = {make_cache_key("u", {"a": 1}, 0), make_cache_key("u", {"a": 2}, 0)}
    names |= {make_cache_key("u", {"a": 1}, 1), make_cache_key("v", {"a": 1}, 0)}
    assert len(names) == 4
    assert make_cache_key({"a": 1, "b": 2}) == make_cache_key({"b": 2, "a": 1})
