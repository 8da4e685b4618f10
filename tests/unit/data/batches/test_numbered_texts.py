"""Blocks on disk: what was written is read, in constant memory; damage is told."""

from pathlib import Path

import numpy as np
import pytest

from mtkit.data.batches.numbered_texts import NumberedTexts, NumberedTextsWriter
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.updates import plan_epoch
from mtkit.errors import MtkitError

from .stores import write_blocks

DOCUMENTS = [[[5, 6, 3], [7, 3]], [[8, 3]], [[9, 9, 9, 3], [4, 4, 4, 3], [5, 3]]]


def test_blocks_and_their_documents_are_read_as_written(tmp_path: Path) -> None:
    blocks = write_blocks(tmp_path, DOCUMENTS)
    assert blocks.store.columns == ("text",)
    found = blocks.store.gather(np.arange(6))["text"].to_lists()
    assert found == [block for document in DOCUMENTS for block in document]
    assert blocks.numbers.tolist() == [0, 0, 1, 2, 2, 2]
    assert isinstance(blocks.numbers, np.memmap)
    # Lengths 3, 2, 2, 4, 4, 2, by hand.
    assert blocks.order.rows.tolist() == [1, 2, 5, 0, 3, 4]


def test_documents_are_an_array_that_numpy_reads_whatever_their_number(tmp_path: Path) -> None:
    for count in (0, 9, 1_000_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        with NumberedTextsWriter(folder, 10) as writer:
            for first in range(0, count, 300_000):
                numbers = np.arange(first, min(count, first + 300_000))
                rows = Ragged(np.full(len(numbers), 3), np.ones(len(numbers), np.int64))
                writer.append(rows, numbers, corpus=0)
        assert np.array_equal(np.load(folder / "documents.npy"), np.arange(count))


def test_damage_is_told(tmp_path: Path) -> None:
    write_blocks(tmp_path, DOCUMENTS)
    path = tmp_path / "documents.npy"
    content = path.read_bytes()
    for damaged in (content[:-8], b"", content[:20], content.replace(b"<i8", b"<f8")):
        path.write_bytes(damaged)
        with pytest.raises(MtkitError, match=r"documents\.npy: damaged"):
            NumberedTexts.open(tmp_path, 100)
    path.unlink()
    with pytest.raises(MtkitError, match=r"documents\.npy: no such file"):
        NumberedTexts.open(tmp_path, 100)


def test_a_document_for_each_block(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="1 documents for 2 rows"),
        NumberedTextsWriter(tmp_path, 10) as writer,
    ):
        writer.append(Ragged.of([[3], [3]]), np.array([0]), corpus=0)


def test_an_epoch_of_blocks_holds_each_once_within_its_budget(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    documents = [[[5] * int(length)] for length in generator.integers(1, 17, 200)]
    blocks = write_blocks(tmp_path, documents)
    for epoch in range(2):
        plan = plan_epoch(
            blocks.order, weights=[1.0], batch_tokens=64, length_groups=2, seed=3, epoch=epoch
        )
        assert sorted(np.concatenate(plan).tolist()) == list(range(200))
        for update in plan:
            assert blocks.store.lengths(update)["text"].sum() <= 64
        assert plan.num_pairs == 200
        assert plan.num_target_tokens == blocks.store.num_tokens["text"]
