"""Two segments a block: where they come from, how long they are, how often they follow."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtkit.data.batches.numbered_texts import NumberedTexts
from mtkit.data.batches.segments import SegmentReader, Segments, check_segments
from mtkit.errors import MtkitError
from mtkit.text.token_ids import BOS, EOS

from .stores import write_blocks

FIRST = 10
"""The first ordinary token; every token of these texts stands in one place only."""


def number_tokens(documents: list[list[list[int]]], max_row: int) -> list[list[list[int]]]:
    """Returns each document's blocks, made as preparation makes them, from sentences' sizes.

    A sentence of n tokens has n numbers that no other has, and `</s>`; blocks hold whole
    sentences, but for one that is longer than a block, which is cut.
    """
    token = FIRST
    numbered = []
    for sizes in documents:
        blocks: list[list[int]] = [[]]
        for size in sizes:
            sentence = [*range(token, token + size), EOS]
            token += size
            for first in range(0, len(sentence), max_row):
                part = sentence[first : first + max_row]
                if blocks[-1] and len(blocks[-1]) + len(part) > max_row:
                    blocks.append([])
                blocks[-1] += part
        numbered.append(blocks)
    return numbered


def split(segments: Segments, number: int) -> list[list[int]]:
    """Returns the segments of one input, without `<s>` and `</s>`, which are checked."""
    ends = np.cumsum(segments.tokens.lengths)
    part = slice(ends[number] - segments.tokens.lengths[number], ends[number])
    tokens, kinds = segments.tokens.tokens[part], segments.segments[part]
    assert tokens[0] == BOS
    found = [tokens[kinds == kind].tolist() for kind in range(kinds.max() + 1)]
    assert all(segment[-1] == EOS for segment in found)
    found[0] = found[0][1:]
    texts = [segment[:-1] for segment in found]
    assert all(token >= FIRST for text in texts for token in text)
    assert (np.diff(kinds) >= 0).all()
    return texts


def without_ends(tokens: list[int]) -> list[int]:
    return [token for token in tokens if token != EOS]


SENTENCES = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(SENTENCES, min_size=2, max_size=8),
    max_tokens=st.integers(8, 48),
    seed=st.integers(0, 3),
)
def test_segments_are_of_one_document_or_of_two(tmp_path, documents, max_tokens, seed) -> None:
    numbered = number_tokens(documents, max_tokens - 2)
    blocks = write_blocks(tmp_path, numbered)
    flat = [block for document in numbered for block in document]
    document_of = {
        token: number
        for number, document in enumerate(numbered)
        for block in document
        for token in block
    }
    reader = SegmentReader(
        blocks.store, blocks.numbers, words=(seed,), max_tokens=max_tokens, next_sentence=True
    )
    rows = np.arange(len(flat))
    bounds = reader.bound(rows)
    assert bounds.max() <= max_tokens
    for epoch in range(4):
        read = reader.read(rows, epoch)
        assert read.is_random is not None
        assert (read.tokens.lengths <= bounds).all()
        for number, block in enumerate(flat):
            first, second = split(read, number)
            text = without_ends(block)
            has_bound = EOS in block[1:-1]
            assert first or not text
            if has_bound:
                # The first segment ends where a sentence does.
                assert text[: len(first)] == first
                assert block[block.index(first[-1]) + 1] == EOS
            if not read.is_random[number]:
                assert has_bound
                assert first + second == text
                continue
            homes = {document_of[token] for token in second}
            assert len(homes) <= 1
            assert not first or document_of[first[0]] not in homes
            # In one piece.
            assert second == list(range(second[0], second[0] + len(second))) if second else True


@pytest.fixture
def blocks(tmp_path) -> NumberedTexts:
    """A thousand blocks of some sentences, three of a document on average."""
    generator = np.random.default_rng(3)
    documents = [generator.integers(2, 12, size=generator.integers(2, 30)) for _ in range(300)]
    return write_blocks(tmp_path, number_tokens([d.tolist() for d in documents], 62))


def read(blocks: NumberedTexts, rows: np.ndarray, epoch: int = 0, seed: int = 1) -> Segments:
    reader = SegmentReader(
        blocks.store, blocks.numbers, words=(seed,), max_tokens=64, next_sentence=True
    )
    return reader.read(rows, epoch)


def test_an_input_depends_on_seed_epoch_and_block_alone(blocks: NumberedTexts) -> None:
    rows = np.arange(len(blocks.store))
    whole = read(blocks, rows).tokens.to_lists()
    shuffled = np.random.default_rng(1).permutation(rows)
    parts = [
        tokens
        for part in np.array_split(shuffled, 7)
        for tokens in read(blocks, part).tokens.to_lists()
    ]
    assert parts == [whole[row] for row in shuffled]
    for epoch, seed in ((1, 1), (0, 2)):
        other = read(blocks, rows, epoch, seed).tokens.to_lists()
        assert sum(map(list.__eq__, whole, other)) < 0.3 * len(whole)


def test_half_of_the_second_segments_follow_and_every_bound_is_as_likely(
    blocks: NumberedTexts,
) -> None:
    rows = np.arange(len(blocks.store))
    text = blocks.store.gather(rows)["text"].to_lists()
    numbers_of_bounds = np.array([block[:-1].count(EOS) for block in text])
    several = rows[numbers_of_bounds > 0]
    flags = np.stack([read(blocks, several, epoch).is_random for epoch in range(40)])
    # Five standard deviations of a fair coin.
    assert abs(flags.mean() - 0.5) < 5 * 0.5 / flags.size**0.5
    # A block's own draws are no more alike than a coin's: the variance of its mean is 1 / 160.
    assert flags.mean(axis=0).var() == pytest.approx(1 / 160, rel=0.2)
    three = rows[numbers_of_bounds == 3]
    assert len(three) > 20
    drawn = np.zeros(4)
    for epoch in range(40):
        segments = read(blocks, three, epoch)
        for number, row in enumerate(three):
            last = split(segments, number)[0][-1]
            drawn[text[row][: text[row].index(last) + 2].count(EOS)] += 1
    assert drawn[0] == 0
    expected = drawn.sum() / 3
    assert ((drawn[1:] - expected) ** 2 / expected).sum() < 25


def test_random_segments_come_from_all_other_documents_alike(tmp_path) -> None:
    # 2, 1 and 1 blocks of one sentence each: blocks of the first document draw from two others.
    blocks = write_blocks(tmp_path, number_tokens([[6, 6], [6], [6]], 8))
    rows = np.arange(4)
    assert len(blocks.store) == 4
    counts = np.zeros((4, 4))
    for epoch in range(3_000):
        reader = SegmentReader(
            blocks.store, blocks.numbers, words=(5,), max_tokens=10, next_sentence=True
        )
        segments = reader.read(rows, epoch)
        assert segments.is_random is not None
        assert segments.is_random.all()
        for row in rows:
            _, second = split(segments, row)
            counts[row, (second[0] - FIRST) // 6] += 1
    shares = counts / 3_000
    halves, thirds = pytest.approx(0.5, abs=0.05), pytest.approx(1 / 3, abs=0.05)
    assert shares[0].tolist() == [0, 0, halves, halves]
    assert shares[1].tolist() == [0, 0, halves, halves]
    assert shares[2].tolist() == [thirds, thirds, 0, thirds]
    assert shares[3].tolist() == [thirds, thirds, thirds, 0]


def test_without_pairs_a_block_is_one_segment(blocks: NumberedTexts) -> None:
    rows = np.arange(50)
    reader = SegmentReader(
        blocks.store, blocks.numbers, words=(1,), max_tokens=64, next_sentence=False
    )
    segments = reader.read(rows, 7)
    assert segments.is_random is None
    for row, block in enumerate(blocks.store.gather(rows)["text"].to_lists()):
        assert split(segments, row) == [without_ends(block)]
    assert (segments.tokens.tokens[segments.text_indices] >= FIRST).all()
    assert segments.num_text_tokens.sum() == len(segments.text_indices)


@pytest.mark.parametrize(
    ("documents", "fault"),
    [
        ([[3, 4], [5]], None),
        ([[3, 4, 5]], "it is one document, but next-sentence prediction needs several"),
        ([[3], [4], [5]], "no block of it has two sentences"),
    ],
)
def test_text_without_pairs_is_refused(tmp_path, documents, fault) -> None:
    blocks = write_blocks(tmp_path, number_tokens(documents, 30))
    if fault is None:
        check_segments(blocks.store, blocks.numbers, "it")
        return
    with pytest.raises(MtkitError, match=fault) as caught:
        check_segments(blocks.store, blocks.numbers, "it")
    assert "training.masking.next_sentence=false" in caught.value.hint
