"""The order by length, against Python's own sorting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batches import length_order
from mtkit.data.batches.length_order import LengthOrder, build_order
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import TokenStoreWriter, make_batch
from mtkit.errors import MtkitError

from .stores import write_store

SENTENCE = st.integers(0, 6).map(lambda length: [4] * length)
CORPORA = st.lists(st.lists(st.tuples(SENTENCE, SENTENCE), max_size=15), max_size=3)


@given(CORPORA, st.integers(1, 20))
@settings(max_examples=60)
def test_sorted_as_python_sorts(tmp_path_factory, corpora, rows_at_once) -> None:
    folder = tmp_path_factory.mktemp("store")
    write_store(folder, corpora)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_order, "_ROWS_AT_ONCE", rows_at_once)
        build_order(folder)
    order = LengthOrder(folder)
    keys = [
        (len(target), len(source), corpus)
        for corpus, pairs in enumerate(corpora)
        for source, target in pairs
    ]
    expected = sorted(range(len(keys)), key=lambda row: (keys[row], row))
    assert order.rows.tolist() == expected
    assert len(order) == len(keys)
    strata = [keys[row] for row in expected]
    assert [tuple(stratum) for stratum in order.strata.tolist()] == [
        (*key, strata.index(key), strata.count(key)) for key in sorted(set(keys))
    ]


def test_rows_take_four_bytes_and_stay_on_disk(tmp_path) -> None:
    write_store(tmp_path, [[([3], [3])] * 10])
    build_order(tmp_path)
    rows = LengthOrder(tmp_path).rows
    assert rows.dtype == np.uint32
    assert isinstance(rows, np.memmap)


def test_an_order_that_is_missing_or_unfinished(tmp_path, monkeypatch) -> None:
    write_store(tmp_path, [[([3], [3])] * 10])
    with pytest.raises(MtkitError, match="missing"):
        LengthOrder(tmp_path)
    build_order(tmp_path)

    def fail(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(length_order, "_fill", fail)
    with pytest.raises(KeyboardInterrupt):
        build_order(tmp_path)
    with pytest.raises(MtkitError, match="missing"):
        LengthOrder(tmp_path)


def test_an_order_that_was_cut_short(tmp_path) -> None:
    write_store(tmp_path, [[([3], [3])] * 10])
    build_order(tmp_path)
    path = tmp_path / "order.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(MtkitError, match="damaged"):
        LengthOrder(tmp_path)


@given(st.lists(st.lists(st.integers(0, 6), max_size=15), min_size=1, max_size=3))
@settings(max_examples=30)
def test_text_alone_by_its_length(tmp_path_factory, corpora) -> None:
    folder = tmp_path_factory.mktemp("store")
    with TokenStoreWriter(folder, {"text": 100}) as writer:
        for corpus, lengths in enumerate(corpora):
            sentences = Ragged.of([[4] * length for length in lengths])
            writer.append(make_batch({"text": sentences}, {"text": 100}), corpus=corpus)
    build_order(folder)
    order = LengthOrder(folder, ["text"])
    keys = [(length, corpus) for corpus, lengths in enumerate(corpora) for length in lengths]
    expected = sorted(range(len(keys)), key=lambda row: (keys[row], row))
    assert order.rows.tolist() == expected
    assert order.strata["text_length"].tolist() == [length for length, _ in sorted(set(keys))]
    with pytest.raises(MtkitError, match="damaged"):
        LengthOrder(folder)


def test_more_columns_than_an_order_can_have(tmp_path) -> None:
    sizes = dict.fromkeys(("source", "target", "document"), 100)
    with TokenStoreWriter(tmp_path, sizes) as writer:
        columns = {name: Ragged.of([[number]]) for number, name in enumerate(sizes)}
        writer.append(make_batch(columns, sizes), corpus=0)
    with pytest.raises(ValueError, match="two columns at most"):
        build_order(tmp_path)
    build_order(tmp_path, ["source", "target"])
    assert LengthOrder(tmp_path).rows.tolist() == [0]
