"""Blocks are those that a loop over each whole document makes, however its text comes."""

from itertools import groupby, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.batches.ragged import Ragged
from mtkit.data.preparation.cut_blocks import (
    BlockCutter,
    Blocks,
    cut_anywhere,
    cut_between_sentences,
    join_blocks,
)

EOS = 3
CUTS = {"anywhere": cut_anywhere, "between sentences": cut_between_sentences}

Sentence = list[int]
Document = list[Sentence]

SENTENCES = st.lists(st.integers(4, 9), max_size=25).map(lambda tokens: [*tokens, EOS])
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=12), max_size=8)
MAX_TOKENS = st.integers(2, 20)


def cut(
    documents: list[Document], max_tokens: int, how: str, *, parts: tuple[int, ...] = (1000,)
) -> tuple[Blocks, int]:
    """Cuts documents whose sentences come so many at a time, over and over."""
    sentences = [sentence for document in documents for sentence in document]
    # Numbers that rise with gaps, as those of a text store do.
    numbers = [3 * index + 5 for index, document in enumerate(documents) for _ in document]
    cutter = BlockCutter(CUTS[how], max_tokens)
    found, first, turn = [], 0, 0
    while first < len(sentences):
        end = first + parts[turn % len(parts)]
        documents_of_part = np.array(numbers[first:end], dtype=np.int64)
        found.append(cutter.add(Ragged.of(sentences[first:end]), documents_of_part))
        first, turn = end, turn + 1
    found.append(cutter.close())
    return join_blocks(found), cutter.num_documents


def by_document(blocks: Blocks) -> list[list[list[int]]]:
    rows = zip(blocks.documents.tolist(), blocks.tokens.to_lists(), strict=True)
    return [[row for _, row in group] for _, group in groupby(rows, key=lambda row: row[0])]


def flatten(document: Document) -> list[int]:
    return [token for sentence in document for token in sentence]


@given(DOCUMENTS, MAX_TOKENS, st.sampled_from(sorted(CUTS)))
def test_a_documents_blocks_put_together_are_its_tokens(
    documents: list[Document], max_tokens: int, how: str
) -> None:
    blocks, num_documents = cut(documents, max_tokens, how)
    found = by_document(blocks)
    # No token of one document is in a block of another, and none is lost.
    assert [[token for row in rows for token in row] for rows in found] == list(
        map(flatten, documents)
    )
    numbers = blocks.documents.tolist()
    assert sorted(set(numbers)) == list(range(len(documents))) == list(range(num_documents))
    assert numbers == sorted(numbers)
    assert all(1 <= len(row) <= max_tokens for rows in found for row in rows)


@given(DOCUMENTS, MAX_TOKENS)
def test_anywhere_fills_all_but_the_last_block(documents: list[Document], max_tokens: int) -> None:
    for rows in by_document(cut(documents, max_tokens, "anywhere")[0]):
        assert all(len(row) == max_tokens for row in rows[:-1])


def fill(document: Document, max_tokens: int) -> list[list[int]]:
    """Blocks of whole sentences, by a loop over them."""
    rows: list[list[int]] = []
    row: list[int] = []
    for sentence in document:
        if len(row) + len(sentence) > max_tokens and row:
            rows.append(row)
            row = []
        row = [*row, *sentence]
        while len(row) > max_tokens:
            rows.append(row[:max_tokens])
            row = row[max_tokens:]
    return [*rows, row] if row else rows


@given(DOCUMENTS, MAX_TOKENS)
def test_between_sentences_is_what_a_loop_fills(documents: list[Document], max_tokens: int) -> None:
    found = by_document(cut(documents, max_tokens, "between sentences")[0])
    assert found == [fill(document, max_tokens) for document in documents]


@given(DOCUMENTS, MAX_TOKENS)
def test_a_block_ends_with_a_sentence_unless_one_is_longer_than_a_block(
    documents: list[Document], max_tokens: int
) -> None:
    longest = max((len(sentence) for document in documents for sentence in document), default=0)
    for rows in by_document(cut(documents, max_tokens, "between sentences")[0]):
        for row, following in pairwise(rows):
            if row[-1] != EOS:
                assert len(row) == max_tokens < longest
            else:
                # The next sentence, or the beginning of one that is too long, had no room.
                size = following.index(EOS) + 1 if EOS in following else len(following)
                assert len(row) + size > max_tokens


@given(
    DOCUMENTS,
    MAX_TOKENS,
    st.sampled_from(sorted(CUTS)),
    st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(any),
)
def test_blocks_don_t_depend_on_the_parts_in_which_text_comes(
    documents: list[Document], max_tokens: int, how: str, sizes: list[int]
) -> None:
    whole, in_parts = (
        cut(documents, max_tokens, how, parts=parts)[0] for parts in ((1000,), tuple(sizes))
    )
    assert in_parts.tokens.to_lists() == whole.tokens.to_lists()
    assert in_parts.documents.tolist() == whole.documents.tolist()


def test_by_hand() -> None:
    first = [[4, 5, EOS], [6, EOS], [7, 8, 9, EOS]]
    second = [[4, EOS]]
    found = by_document(cut([first, second], 4, "anywhere")[0])
    assert found == [[[4, 5, 3, 6], [3, 7, 8, 9], [3]], [[4, 3]]]
    found = by_document(cut([first, second], 5, "between sentences")[0])
    assert found == [[[4, 5, 3, 6, 3], [7, 8, 9, 3]], [[4, 3]]]
    # A sentence of seven in blocks of three: its rest is joined by what follows.
    long = [[4, EOS], [5, 6, 7, 8, 9, 4, EOS], [5, EOS]]
    found = by_document(cut([long], 3, "between sentences")[0])
    assert found == [[[4, 3], [5, 6, 7], [8, 9, 4], [3, 5, 3]]]


def test_nothing_is_no_block() -> None:
    for how in CUTS:
        blocks, num_documents = cut([], 4, how)
        assert (len(blocks), num_documents) == (0, 0)


def test_what_is_held_back_is_no_more_than_a_block() -> None:
    """A document of any length passes in constant memory."""
    sentences = Ragged.of([[5] * 9 + [EOS]] * 100)
    for cut_document in CUTS.values():
        cutter = BlockCutter(cut_document, 32)
        num_given = num_cut = 0
        for _ in range(50):
            blocks = cutter.add(sentences, np.zeros(100, np.int64))
            num_given += len(sentences.tokens)
            num_cut += len(blocks.tokens.tokens)
            assert num_given - num_cut <= 32
