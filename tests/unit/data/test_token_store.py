"""Tokens written and read back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.token_store import TokenStore, TokenStoreWriter
from mtkit.errors import MtkitError

SENTENCE = st.lists(st.integers(0, 69_999), min_size=1, max_size=12)


def write(folder: Path, pairs, vocab_size: int = 70_000) -> TokenStore:
    with TokenStoreWriter(folder, vocab_size) as store:
        for source, target in pairs:
            store.append(source, target)
    return TokenStore(folder)


@given(st.lists(st.tuples(SENTENCE, SENTENCE), max_size=8))
@settings(max_examples=30, deadline=None)
def test_what_goes_in_comes_out(tmp_path_factory, pairs) -> None:
    store = write(tmp_path_factory.mktemp("store"), pairs)
    assert len(store) == len(pairs)
    assert store.source_lengths.tolist() == [len(source) for source, _ in pairs]
    assert store.target_lengths.tolist() == [len(target) for _, target in pairs]
    for index, (source, target) in enumerate(pairs):
        assert store.source(index).tolist() == source
        assert store.target(index).tolist() == target
        assert store.source(index).dtype == np.int64


@pytest.mark.parametrize(("vocab_size", "width"), [(65_536, 2), (65_537, 4)])
def test_a_token_takes_the_bytes_its_vocabulary_needs(tmp_path, vocab_size, width) -> None:
    store = write(tmp_path, [([vocab_size - 1, 3], [5])], vocab_size)
    assert (tmp_path / "source.tokens").stat().st_size == 2 * width
    assert store.source(0).tolist() == [vocab_size - 1, 3]


def test_a_store_whose_writing_failed_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stopped"):
        fail_while_writing(tmp_path)
    with pytest.raises(MtkitError, match="no prepared data"):
        TokenStore(tmp_path)


def fail_while_writing(folder: Path) -> None:
    with TokenStoreWriter(folder, 100) as store:
        store.append([1], [2])
        raise RuntimeError("stopped")


@pytest.mark.parametrize("name", ["source.tokens", "target.ends"])
def test_a_store_that_was_cut_short(tmp_path: Path, name: str) -> None:
    write(tmp_path, [([4, 5, 3], [6, 3]), ([7, 3], [8, 3])])
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:8])
    with pytest.raises(MtkitError, match="incomplete"):
        TokenStore(tmp_path)
