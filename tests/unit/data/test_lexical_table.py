import itertools
from collections import defaultdict

import numpy as np
import pytest

from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import TokenStore, TokenStoreWriter, make_batch
from mtkit.data.lexical_table import make_shortlist

_NAMES = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "the",
    "house",
    "book",
    "a",
    "das",
    "Haus",
    "Buch",
    "ein",
]
THE, HOUSE, BOOK, A, DAS, HAUS, BUCH, EIN = range(4, 12)
_SIZES = {"source": 12, "target": 12}
_PAIRS = [
    ([THE, HOUSE, 3], [DAS, HAUS, 3]),
    ([THE, BOOK, 3], [DAS, BUCH, 3]),
    ([A, BOOK, 3], [EIN, BUCH, 3]),
]


def write(folder, pairs) -> TokenStore:
    sides = zip(*pairs, strict=True)
    columns = dict(zip(("source", "target"), map(Ragged.of, sides), strict=True))
    with TokenStoreWriter(folder, _SIZES) as writer:
        writer.append(make_batch(columns, _SIZES), corpus=0)
    return TokenStore(folder, _SIZES)


def rank_by_the_book(pairs, piece: int) -> list[int]:
    """Returns translations by IBM model 1 as Koehn has it ("Statistical Machine Translation",
    figure 4.3), three rounds, ranked by p(target | source) times the share of the target."""
    probabilities = defaultdict(lambda: 1.0)
    for _ in range(3):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for word in target:
                sum_of_word = sum(probabilities[word, other] for other in source)
                for other in source:
                    share = probabilities[word, other] / sum_of_word
                    counts[word, other] += share
                    totals[other] += share
        for word, other in counts:
            probabilities[word, other] = counts[word, other] / totals[other]
    explained = defaultdict(float)
    for (word, _), count in counts.items():
        explained[word] += count
    found = [word for word, other in counts if other == piece]
    return sorted(found, key=lambda w: -probabilities[w, piece] * counts[w, piece] / explained[w])


def test_translations_are_ranked_as_the_book_says(tmp_path):
    pairs = [*_PAIRS, ([THE, HOUSE, A, 3], [EIN, HAUS, HAUS, DAS, 3])]
    table = make_shortlist(write(tmp_path, pairs), (12, 12), is_joint=False)
    for piece in (THE, HOUSE, BOOK, A):
        assert table.list_translations(piece).tolist() == rank_by_the_book(pairs, piece)


def test_each_word_finds_its_translation(tmp_path):
    table = make_shortlist(write(tmp_path, _PAIRS), (12, 12), is_joint=False)
    best = [table.list_translations(piece)[0] for piece in (THE, HOUSE, BOOK, A)]
    assert best == [DAS, HAUS, BUCH, EIN]
    assert not len(table.list_translations(DAS))
    assert table.frequent[0] == 3


def test_with_one_vocabulary_a_piece_may_be_copied(tmp_path):
    table = make_shortlist(write(tmp_path, _PAIRS), (12, 12), is_joint=True)
    assert table.list_translations(THE)[:2].tolist() == [THE, DAS]
    assert table.list_translations(EIN).tolist() == [EIN]


@pytest.mark.parametrize("max_cells", [9, 20, 1_000_000])
def test_no_more_pairs_are_looked_at_than_memory_allows(tmp_path, max_cells):
    pairs = [pair for pair, _ in itertools.product(_PAIRS, range(40))]
    table = make_shortlist(write(tmp_path, pairs), (12, 12), is_joint=False, max_cells=max_cells)
    # A pair has nine cells.
    num_sources = sum(bool(len(table.list_translations(piece))) for piece in range(12))
    assert num_sources <= max_cells / 9 * 3
    assert num_sources >= 3
    # Frequencies are of the whole corpus.
    assert table.frequent[:3].tolist() == [3, DAS, BUCH]
    assert np.array_equal(np.sort(table.frequent), np.arange(12))
