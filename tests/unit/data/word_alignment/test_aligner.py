"""An aligner that learned from generated pairs whose words are known to correspond."""

from pathlib import Path
from random import Random

import pytest
from safetensors.numpy import load_file, save_file

from mtkit.data.word_alignment.aligner import WordAligner
from mtkit.data.word_alignment.estimate import Pair, train_aligner
from mtkit.data.word_alignment.pair_blocks import cut_blocks
from mtkit.data.word_alignment.word_table import find_aligned_words, split_word
from mtkit.errors import MtkitError

Links = set[tuple[int, int]]


def make_pairs(count: int, seed: int) -> tuple[list[Pair], list[Links]]:
    """Returns pairs whose words have one translation each, two neighbours swapped, and their links.

    Each source has an article, which has no counterpart.
    """
    random = Random(seed)
    pairs, links = [], []
    for _ in range(count):
        words = random.sample(range(60), random.randint(3, 7))
        order = list(range(len(words)))
        swap = random.randrange(len(words) - 1)
        order[swap : swap + 2] = reversed(order[swap : swap + 2])
        source = ["the", *(f"s{word}" for word in words)]
        pairs.append((source, [f"t{words[index]}" for index in order]))
        links.append({(index + 1, position) for position, index in enumerate(order)})
    return pairs, links


def score(aligner: WordAligner, pairs: list[Pair], expected: list[Links]) -> float:
    found = aligner.align(*zip(*pairs, strict=True))
    right = sum(len(ours & theirs) for ours, theirs in zip(found, expected, strict=True))
    return 2 * right / sum(map(len, [*found, *expected]))


@pytest.fixture(scope="module")
def aligner() -> WordAligner:
    return train_aligner(make_pairs(600, 1)[0], tuple)


def test_it_finds_the_words_of_new_pairs(aligner: WordAligner) -> None:
    assert score(aligner, *make_pairs(100, 2)) > 0.98


def test_it_is_the_same_again_and_from_a_file(aligner: WordAligner, tmp_path: Path) -> None:
    pairs, _ = make_pairs(50, 3)
    sides = list(zip(*pairs, strict=True))
    expected = aligner.align(*sides)
    assert train_aligner(make_pairs(600, 1)[0], tuple).align(*sides) == expected
    aligner.save(tmp_path / "aligner.safetensors")
    loaded = WordAligner.load(tmp_path / "aligner.safetensors")
    assert loaded.align(*sides) == expected
    # Whatever stands beside a pair.
    alone = [links for pair in pairs for links in loaded.align([pair[0]], [pair[1]])]
    assert alone == expected


def test_of_more_pairs_than_memory_may_hold_it_learns_from_a_part() -> None:
    split: list[Pair] = []

    def note(pair: Pair) -> Pair:
        split.append(pair)
        return pair

    pairs = make_pairs(600, 1)[0]
    small = train_aligner(pairs, note, max_cells=5_000)
    # Some 130 pairs: enough for 60 words.
    assert score(small, *make_pairs(100, 2)) > 0.9
    # Pairs that it skips aren't even split into words.
    assert len(split) < 400
    assert split[-1] == pairs[596]


def test_unknown_words_are_placed_by_their_neighbours_and_their_spelling(
    aligner: WordAligner,
) -> None:
    [links] = aligner.align([["the", "s1", "new", "s3", "42"]], [["t1", "neu", "t3", "42"]])
    assert links == {(1, 0), (2, 1), (3, 2), (4, 3)}


def test_blank_and_very_long_sides_have_no_links(aligner: WordAligner) -> None:
    long = ["s1"] * 500
    assert aligner.align([[], ["s1"], long], [["t1"], [], ["t1"]]) == [set(), set(), set()]
    assert aligner.align([], []) == []


def test_nothing_to_learn_from() -> None:
    assert train_aligner([], tuple).align([["a"]], [["b"]]) == [{(0, 0)}]


def test_blocks_hold_every_pair_once() -> None:
    lengths = [(3, 4), (0, 4), (9, 9), (3, 5), (200, 1)]
    blocks = list(cut_blocks(lengths, max_words=100, max_cells=30))
    assert sorted(index for block in blocks for index in block) == [0, 2, 3]
    assert blocks == [[0, 3], [2]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3,5 km!", ["It'", "s", "3,5", "km", "!"]),
        ("l’homme est là…", ["l’", "homme", "est", "là", "…"]),
        ("版本 3.2 的 pip", ["版", "本", "3.2", "的", "pip"]),
        (" \t", []),
    ],
)
def test_words_without_a_tokenizer(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in find_aligned_words(text)] == words


def test_unknown_words_that_begin_alike_are_linked_across_a_sentence(
    aligner: WordAligner,
) -> None:
    # Nothing is known but the spelling: "nation" and "nationen", "musik" and "music".
    source = ["nation", "w1", "w2", "w3", "music"]
    target = ["musik", "v1", "v2", "v3", "nationen"]
    (links,) = aligner.align([source], [target])
    assert {(0, 4), (4, 0)} <= links
    # Numbers that begin alike are others.
    (links,) = aligner.align([["12345", "w1", "w2", "99999"]], [["99998", "v1", "v2", "12346"]])
    assert (0, 3) not in links


def test_a_file_of_an_aligner_is_checked(aligner: WordAligner, tmp_path: Path) -> None:
    path = tmp_path / "aligner.safetensors"
    with pytest.raises(MtkitError, match="missing"):
        WordAligner.load(path)
    aligner.save(path)
    arrays = load_file(path)
    # A pair of words that aren't there.
    arrays["keys"][-1] = 10**9
    save_file(arrays, path)
    with pytest.raises(MtkitError, match="damaged"):
        WordAligner.load(path)


@pytest.mark.parametrize(
    ("word", "split"),
    [
        ("Don't,", [("don'", True), ("t", True), (",", False)]),
        ("(3,5", [("(", False), ("3,5", True)]),
        ("Straße", [("strasse", True)]),
        ("--", [("-", True), ("-", True)]),
        ("", []),
    ],
)
def test_a_word_is_split_as_its_text_is(word: str, split: list[tuple[str, bool]]) -> None:
    assert list(split_word(word)) == split
    text = f"A {word} b."
    spans = find_aligned_words(text)
    names = [name for each in text.split() for name, _ in split_word(each)]
    assert [text[start:end].casefold() for start, end in spans] == names
