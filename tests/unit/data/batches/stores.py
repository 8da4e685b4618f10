"""Small token stores for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mtkit.data.batches.length_order import LengthOrder, build_order
from mtkit.data.batches.numbered_texts import NumberedTexts, NumberedTextsWriter
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStore, TokenStoreWriter, make_batch

PAIRS_OF_100 = dict.fromkeys(PAIR_COLUMNS, 100)
Pair = tuple[list[int], list[int]]


def write_store(
    folder: Path,
    corpora: Sequence[Sequence[Pair]],
    *,
    vocab_size: int = 70_000,
    rows_at_once: Sequence[int] = (1_000,),
) -> TokenStore:
    """Writes corpora in record batches of the given sizes, over and over."""
    with TokenStoreWriter(folder, dict.fromkeys(PAIR_COLUMNS, vocab_size)) as writer:
        for corpus, pairs in enumerate(corpora):
            first = number = 0
            while first < len(pairs):
                part = pairs[first : first + rows_at_once[number % len(rows_at_once)]]
                first += rows_at_once[number % len(rows_at_once)]
                number += 1
                sides = ([pair[side] for pair in part] for side in (0, 1))
                writer.append(make_pair_batch(*sides, vocab_size), corpus=corpus)
    return TokenStore(folder)


def make_pair_batch(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], vocab_size: int
) -> pa.RecordBatch:
    """Returns sentence pairs as a store's writer takes them."""
    columns = {"source": Ragged.of(source), "target": Ragged.of(target)}
    return make_batch(columns, dict.fromkeys(PAIR_COLUMNS, vocab_size))


def order_lengths(folder: Path, corpora: Sequence[tuple[np.ndarray, np.ndarray]]) -> LengthOrder:
    """Writes a store with sentences of the given lengths; returns its order."""
    folder.mkdir(exist_ok=True)
    write_store(
        folder,
        [
            [([5] * s, [6] * t) for s, t in zip(source.tolist(), target.tolist(), strict=True)]
            for source, target in corpora
        ],
    )
    build_order(folder)
    return LengthOrder(folder)


def write_blocks(
    folder: Path, documents: Sequence[Sequence[Sequence[int]]], vocab_size: int = 70_000
) -> NumberedTexts:
    """Writes the blocks of each of some documents, all of one corpus."""
    folder.mkdir(exist_ok=True)
    with NumberedTextsWriter(folder, vocab_size) as writer:
        for number, blocks in enumerate(documents):
            writer.append(Ragged.of(blocks), np.full(len(blocks), number), corpus=0)
    return NumberedTexts.open(folder, vocab_size)
