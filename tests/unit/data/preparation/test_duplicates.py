"""Duplicates are those that a set finds, however few keys fit into memory at a time."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.preparation.text_store import digest_rows, hash_keys, mark_repeated

LINES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz")), max_size=60)


def mark(pairs: list[tuple[str, str]], by: str, path: Path, at_once: int) -> list[bool]:
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    marks = np.zeros(len(pairs), dtype=np.bool_)
    for key in hash_keys(by):
        path.write_bytes(digest_rows((sources, targets), key))
        mark_repeated(path, marks, keys_at_once=at_once)
    return marks.tolist()


@given(pairs=LINES, at_once=st.integers(1, 70))
@pytest.mark.parametrize("by", ["pair", "source", "target", "either"])
def test_as_a_set_finds_them(
    tmp_path_factory: pytest.TempPathFactory, by: str, pairs: list[tuple[str, str]], at_once: int
) -> None:
    seen: dict[str, set] = {"pair": set(), "source": set(), "target": set()}
    expected = []
    for source, target in pairs:
        keys = {"pair": (source, target), "source": source, "target": target}
        repeated = {kind for kind, key in keys.items() if key in seen[kind]}
        for kind, key in keys.items():
            seen[kind].add(key)
        expected.append(bool(repeated & ({"source", "target"} if by == "either" else {by})))
    path = tmp_path_factory.getbasetemp() / "keys"
    assert mark(pairs, by, path, at_once) == expected


def test_a_line_break_in_thought_is_no_other_pair(tmp_path: Path) -> None:
    # "a b" + "c" and "a" + "b c" hold the same letters.
    pairs = [("a b", "c"), ("a", "b c"), ("ab", "c"), ("a b", "c")]
    assert mark(pairs, "pair", tmp_path / "keys", 100) == [False, False, False, True]


def test_keys_that_agree_in_half_are_compared_in_full(tmp_path: Path) -> None:
    keys = np.array([[7, 1], [7, 2], [7, 1], [8, 1], [7, 2], [9, 9]], dtype="<u8")
    keys.tofile(tmp_path / "keys")
    marks = np.zeros(6, dtype=np.bool_)
    mark_repeated(tmp_path / "keys", marks)
    assert marks.tolist() == [False, False, True, False, True, False]
