"""Tokens written and read back, also by Arrow's own reader."""

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import TokenStore, TokenStoreWriter, make_batch
from mtkit.errors import MtkitError

from .stores import PAIRS_OF_100, make_pair_batch, write_store

SENTENCE = st.lists(st.integers(0, 69_999), max_size=12)
CORPORA = st.lists(st.lists(st.tuples(SENTENCE, SENTENCE), max_size=12), max_size=3)
SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=3).filter(any)


@given(CORPORA, SIZES, st.data())
@settings(max_examples=100)
def test_what_goes_in_comes_out_however_it_is_batched(
    tmp_path_factory, corpora, sizes, data
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = write_store(folder, corpora, rows_at_once=sizes)
    pairs = [pair for corpus in corpora for pair in corpus]
    assert len(store) == len(pairs)
    rows = data.draw(st.lists(st.integers(0, len(pairs) - 1), max_size=20)) if pairs else []
    rows = np.array(rows, dtype=np.int64)
    chosen = [pairs[row] for row in rows]
    lengths = store.lengths(rows)
    store.release()
    tokens = store.gather(rows)
    assert [*lengths] == [*tokens] == ["source", "target"]
    for side, column in enumerate(tokens):
        assert lengths[column].tolist() == [len(pair[side]) for pair in chosen]
        assert tokens[column].to_lists() == [pair[side] for pair in chosen]
        assert tokens[column].tokens.dtype == tokens[column].lengths.dtype == np.int64


@given(CORPORA, SIZES)
@settings(max_examples=30)
def test_arrow_reads_the_same(tmp_path_factory, corpora, sizes) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = write_store(folder, corpora, rows_at_once=sizes)
    with pa.ipc.open_file(str(folder / "tokens.arrow")) as reader:
        table = reader.read_all()
    assert table.to_pylist() == [
        {"source": source, "target": target} for corpus in corpora for source, target in corpus
    ]
    pairs = [pair for corpus in corpora for pair in corpus]
    assert store.num_tokens == {
        "source": sum(len(source) for source, _ in pairs),
        "target": sum(len(target) for _, target in pairs),
    }
    # Corpora without pairs at the end are unknown to the store.
    counts = [len(corpus) for corpus in corpora]
    assert (
        store.corpus_sizes == counts[: max((i + 1 for i, n in enumerate(counts) if n), default=0)]
    )


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, pa.uint16()), (65_537, pa.uint32())])
def test_a_token_takes_the_bytes_its_vocabulary_needs(tmp_path, vocab_size, dtype) -> None:
    store = write_store(tmp_path, [[([vocab_size - 1, 3], [5])]], vocab_size=vocab_size)
    with pa.ipc.open_file(str(tmp_path / "tokens.arrow")) as reader:
        assert reader.schema.field("source").type == pa.list_(dtype)
    assert store.gather(np.array([0]))["source"].to_lists() == [[vocab_size - 1, 3]]


def test_a_token_that_does_not_fit_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="65536"):
        make_pair_batch([[65_536]], [[3]], 100)


def test_the_same_pairs_make_the_same_bytes(tmp_path) -> None:
    pairs = [([5, 6, 3], [7, 3]), ([9, 3], [3])]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_store(tmp_path / name, [pairs])
    for name in ("tokens.arrow", "store.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    content = (tmp_path / "one" / "tokens.arrow").read_bytes()
    assert TokenStore(tmp_path / "one").digest == hashlib.sha256(content).hexdigest()[:16]


def test_a_batch_survives_the_way_between_processes(tmp_path) -> None:
    batch = make_pair_batch([[5, 3], [3]], [[3], [6, 3]], 100)
    assert len(pickle.dumps(batch)) < 2_000
    with TokenStoreWriter(tmp_path, PAIRS_OF_100) as writer:
        writer.append(pickle.loads(pickle.dumps(batch)), corpus=0)
        # A slice doesn't begin where its buffers do.
        writer.append(batch.slice(1), corpus=0)
    found = TokenStore(tmp_path).gather(np.array([2, 0]))
    assert found["source"].to_lists() == [[3], [5, 3]]
    assert found["target"].to_lists() == [[6, 3], [3]]


def test_corpora_out_of_order_and_other_columns_are_refused(tmp_path) -> None:
    batch = make_pair_batch([[3]], [[3]], 100)
    with (
        TokenStoreWriter(tmp_path, dict.fromkeys(PAIRS_OF_100, 70_000)) as writer,
        pytest.raises(ValueError, match="expected columns"),
    ):
        writer.append(batch, corpus=0)
    with TokenStoreWriter(tmp_path, PAIRS_OF_100) as writer:
        writer.append(batch, corpus=2)
        with pytest.raises(ValueError, match="corpus 1 after corpus 2"):
            writer.append(batch, corpus=1)
    assert TokenStore(tmp_path).corpus_sizes == [0, 0, 1]


@pytest.mark.parametrize("rows", [[2], [-1], [0, 5]])
def test_no_such_row(tmp_path, rows) -> None:
    store = write_store(tmp_path, [[([3], [3])] * 2])
    with pytest.raises(IndexError, match="of a store of 2"):
        store.gather(np.array(rows))


def test_a_store_whose_writing_failed_is_no_store(tmp_path: Path) -> None:
    write_store(tmp_path, [[([3], [3])]])
    with pytest.raises(RuntimeError, match="stopped"):
        fail_while_writing(tmp_path)
    with pytest.raises(MtkitError, match="no prepared data"):
        TokenStore(tmp_path)


def fail_while_writing(folder: Path) -> None:
    with TokenStoreWriter(folder, PAIRS_OF_100) as store:
        store.append(make_pair_batch([[1]], [[2]], 100), corpus=0)
        raise RuntimeError("stopped")


def test_a_store_that_was_cut_short(tmp_path: Path) -> None:
    write_store(tmp_path, [[([4, 5, 3], [6, 3]), ([7, 3], [8, 3])]])
    path = tmp_path / "tokens.arrow"
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    with pytest.raises(MtkitError, match=f"incomplete: expected {len(content):,} bytes"):
        TokenStore(tmp_path)
    path.write_bytes(bytes(len(content)))
    with pytest.raises(MtkitError, match="damaged"):
        TokenStore(tmp_path)
    path.unlink()
    with pytest.raises(MtkitError, match="incomplete"):
        TokenStore(tmp_path)


def test_a_store_of_another_version(tmp_path: Path) -> None:
    write_store(tmp_path, [[([3], [3])]])
    path = tmp_path / "store.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "format_version": 99}))
    with pytest.raises(MtkitError, match="format 99"):
        TokenStore(tmp_path)
    path.write_text(json.dumps({"num_rows": 1, "dtype": "uint16"}))
    with pytest.raises(MtkitError, match="made by an unreleased mtkit") as caught:
        TokenStore(tmp_path)
    assert caught.value.hint == "run `mtkit prepare` again"


def _write(folder: Path) -> None:
    write_store(folder, [[([1, 2, 3], [4, 3]), ([5, 3], [6, 7, 3])]], rows_at_once=[2])


@pytest.mark.parametrize(
    "changes",
    [
        {"num_rows": "two"},
        {"num_rows": 10**12},
        {"num_rows": -1},
        {"corpus_sizes": 2},
        {"num_bytes": None},
        {"digest": []},
    ],
)
def test_facts_that_are_not_the_files_are_damage(tmp_path: Path, changes) -> None:
    _write(tmp_path)
    path = tmp_path / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(MtkitError, match="damaged"):
        TokenStore(tmp_path)


def _replace(folder: Path, batch: pa.RecordBatch, **options: object) -> None:
    path = folder / "tokens.arrow"
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer,
    ):
        writer.write_batch(batch)
    facts = json.loads((folder / "store.json").read_text())
    facts["num_bytes"] = path.stat().st_size
    (folder / "store.json").write_text(json.dumps(facts))


def test_a_file_of_another_kind_is_damage(tmp_path: Path) -> None:
    _write(tmp_path)
    good = make_pair_batch([[1, 3], [2, 3]], [[1, 3], [2, 3]], 400)
    _replace(tmp_path, good)
    assert len(TokenStore(tmp_path)) == 2
    _replace(tmp_path, good, compression="zstd")
    with pytest.raises(MtkitError, match="damaged"):
        TokenStore(tmp_path)
    _replace(tmp_path, pa.record_batch({"source": ["a", "b"], "target": ["c", "d"]}))
    with pytest.raises(MtkitError, match="damaged"):
        TokenStore(tmp_path)


@pytest.mark.parametrize("offset", [-5, 1 << 20, (1 << 31) - 1])
def test_sentences_that_reach_past_the_end_are_damage(tmp_path: Path, offset: int) -> None:
    _write(tmp_path)
    path = tmp_path / "tokens.arrow"
    content = path.read_bytes()
    offsets = np.array([0, 3, 5], dtype=np.int32).tobytes()
    assert content.count(offsets) == 1
    lying = np.array([0, offset, 5], dtype=np.int32).tobytes()
    path.write_bytes(content.replace(offsets, lying))
    store = TokenStore(tmp_path)
    with pytest.raises(MtkitError, match="extend past its end"):
        store.gather(np.array([0, 1]))


def test_a_pipe_in_place_of_the_tokens_is_not_read(tmp_path: Path) -> None:
    _write(tmp_path)
    (tmp_path / "tokens.arrow").rename(tmp_path.parent / "tokens.arrow")
    (tmp_path / "tokens.arrow").symlink_to(tmp_path.parent / "tokens.arrow")
    with pytest.raises(MtkitError, match="a link out of its folder"):
        TokenStore(tmp_path)


def test_a_token_beyond_the_vocabulary_is_damage(tmp_path: Path) -> None:
    write_store(tmp_path, [[([5, 6], [7, 3]), ([5, 40], [9, 3])]])
    store = TokenStore(tmp_path, {"source": 41, "target": 10})
    assert store.gather(np.array([0, 1]))["source"].tokens.tolist() == [5, 6, 5, 40]
    store = TokenStore(tmp_path, {"source": 40, "target": 10})
    assert store.gather(np.array([0]))["source"].tokens.tolist() == [5, 6]
    with pytest.raises(MtkitError, match="token id 40 in a vocabulary of 40 pieces"):
        store.gather(np.array([1]))
    with pytest.raises(MtkitError, match="token id 9 in a vocabulary of 9 pieces"):
        TokenStore(tmp_path, {"source": 41, "target": 9}).gather(np.array([0, 1]))


TEXT = [[5, 6, 3], [3], [], [7, 3]]


def write_text(folder: Path, sentences: list[list[int]] = TEXT) -> TokenStore:
    """Writes a store of text in one language, in two record batches."""
    with TokenStoreWriter(folder, {"text": 70_000}) as writer:
        for part in (sentences[:3], sentences[3:]):
            writer.append(make_batch({"text": Ragged.of(part)}, {"text": 70_000}), corpus=0)
    return TokenStore(folder, {"text": 70_000})


def test_a_store_of_text_alone(tmp_path: Path) -> None:
    store = write_text(tmp_path)
    assert store.columns == ("text",)
    assert (len(store), store.num_tokens, store.corpus_sizes) == (4, {"text": 6}, [4])
    rows = np.array([3, 0, 2])
    assert store.lengths(rows)["text"].tolist() == [2, 3, 0]
    assert store.gather(rows)["text"].to_lists() == [[7, 3], [5, 6, 3], []]
    with pa.ipc.open_file(str(tmp_path / "tokens.arrow")) as reader:
        assert reader.read_all().to_pylist() == [{"text": sentence} for sentence in TEXT]


def test_a_column_beside_the_text_has_a_width_of_its_own(tmp_path: Path) -> None:
    sizes = {"text": 400, "document": 1 << 20}
    columns = {"text": Ragged.of([[399, 3], [3]]), "document": Ragged.of([[70_000], [70_001]])}
    with TokenStoreWriter(tmp_path, sizes) as writer:
        writer.append(make_batch(columns, sizes), corpus=0)
    with pa.ipc.open_file(str(tmp_path / "tokens.arrow")) as reader:
        assert reader.schema.types == [pa.list_(pa.uint16()), pa.list_(pa.uint32())]
    store = TokenStore(tmp_path, sizes)
    assert store.gather(np.array([1]), ["document"])["document"].to_lists() == [[70_001]]
    assert [*store.gather(np.array([1]), ["text"])] == ["text"]


def test_other_columns_than_asked_for_are_damage(tmp_path: Path) -> None:
    write_text(tmp_path)
    for sizes in ({"source": 9, "target": 9}, {"text": 9, "document": 9}):
        with pytest.raises(MtkitError, match="damaged"):
            TokenStore(tmp_path, sizes)
    with pytest.raises(MtkitError, match="token id 6 in a vocabulary of 6 pieces"):
        TokenStore(tmp_path, {"text": 6}).gather(np.array([0]))


@pytest.mark.parametrize("name", ["text", "other"])
def test_a_damaged_store_of_text_is_refused(tmp_path: Path, name: str) -> None:
    write_text(tmp_path)
    _replace(tmp_path, pa.record_batch({name: ["one", "two", "three", "four"]}))
    with pytest.raises(MtkitError, match="damaged"):
        TokenStore(tmp_path)
    path = tmp_path / "tokens.arrow"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(MtkitError, match="incomplete"):
        TokenStore(tmp_path)
