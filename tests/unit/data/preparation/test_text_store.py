"""Cleaned text comes back as it went in, and is sampled evenly."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.preparation.text_store import (
    TextStore,
    TextStoreWriter,
    make_text_batch,
    open_marks,
    write_part,
)
from mtkit.errors import MtkitError

PAIRS = [(f"source {number}", f"Ziel {number} äöü\u2028") for number in range(100)]


def write(folder: Path, pairs: list[tuple[str, str]], size: int, duplicates=()) -> TextStore:
    folder.mkdir()
    with TextStoreWriter(folder) as store:
        for first in range(0, len(pairs), size):
            sources, targets = zip(*pairs[first : first + size], strict=True)
            batch = make_text_batch({"source": sources, "target": targets})
            store.append(write_part(folder, batch))
    marks = open_marks(folder / "is_duplicate.npy", len(pairs))
    for place in duplicates:
        marks[place] = True
    return TextStore(folder)


def read(store: TextStore) -> list[tuple[str, str]]:
    return [
        (row["source"], row["target"])
        for part in store.iterate_unique()
        for row in part.to_pylist()
    ]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_what_went_in_comes_out_without_duplicates(tmp_path: Path, size: int) -> None:
    assert read(write(tmp_path / "all", PAIRS, size)) == PAIRS
    kept = [pair for place, pair in enumerate(PAIRS) if place not in (0, 6, 7, 99)]
    assert read(write(tmp_path / "some", PAIRS, size, duplicates=(0, 6, 7, 99))) == kept


def test_a_sample_is_even_and_leaves_duplicates_out(tmp_path: Path) -> None:
    store = write(tmp_path / "store", PAIRS, 30, duplicates=range(10, 20))
    drawn: Counter[tuple[str, str]] = Counter()
    for seed in range(300):
        columns = (store.sample(column, 9, 90, seed=[seed]) for column in ("source", "target"))
        sample = list(zip(*columns, strict=True))
        assert len(set(sample)) == 9
        assert sample == sorted(sample, key=PAIRS.index)
        drawn.update(sample)
    assert set(drawn) == {pair for place, pair in enumerate(PAIRS) if not 10 <= place < 20}
    # 300 draws with a chance of 1/10: mean 30, standard deviation 5.2.
    assert max(abs(count - 30) for count in drawn.values()) < 5 * 5.2
    assert len(list(store.sample("source", 1000, 90, seed=[3]))) == 90


def test_nothing_is_a_store_too(tmp_path: Path) -> None:
    store = write(tmp_path / "store", [], 10)
    assert read(store) == []
    assert np.array_equal(store.is_duplicate(0, 0), np.zeros(0, dtype=np.bool_))


def test_a_store_that_was_cut_short_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    write(folder, PAIRS, 30)
    path = folder / "parts" / "000001.arrow"
    content = path.read_bytes()
    for damaged in (content[:-20], content[:3], b""):
        path.write_bytes(damaged)
        with pytest.raises(MtkitError, match=r"000001\.arrow: missing or damaged"):
            read(TextStore(folder))
    path.unlink()
    with pytest.raises(MtkitError, match=r"000001\.arrow: missing or damaged"):
        read(TextStore(folder))
    (folder / "parts.json").unlink()
    with pytest.raises(MtkitError, match=r"parts\.json: missing or damaged"):
        TextStore(folder)


def test_text_alone(tmp_path: Path) -> None:
    with TextStoreWriter(tmp_path) as writer:
        # Of a worker that died.
        write_part(tmp_path, make_text_batch({"text": ["never numbered"]}))
        texts = ["one", "two", "one"]
        writer.append(write_part(tmp_path, make_text_batch({"text": texts})), np.array([0, 0, 1]))
        last = write_part(tmp_path, make_text_batch({"text": ["three"]}))
        writer.append(last, np.array([2]))
    assert len(list((tmp_path / "parts").iterdir())) == 4
    open_marks(tmp_path / "is_duplicate.npy", 4)[2] = True
    store = TextStore(tmp_path)
    assert (store.num_parts, store.columns) == (2, ("text", "document"))
    parts = [part.to_pylist() for part in store.iterate_unique()]
    assert parts == [
        [{"text": "one", "document": 0}, {"text": "two", "document": 0}],
        [{"text": "three", "document": 2}],
    ]
    assert list(store.sample("text", 9, 3, seed=[1])) == ["one", "two", "three"]
