"""Pairs aligned together: what they show is added to what an aligner knows."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from mtkit.data.word_alignment import pair_blocks
from mtkit.data.word_alignment.aligner import WordAligner
from mtkit.data.word_alignment.alignment_learner import AlignmentLearner, PriorCounts, begin_jumps
from mtkit.data.word_alignment.estimate import train_aligner
from mtkit.data.word_alignment.hidden_markov import MAX_JUMP
from mtkit.data.word_alignment.pair_blocks import number_pairs
from mtkit.data.word_alignment.together import align_together

Links = set[tuple[int, int]]


def make_pairs(
    count: int, seed: int, *, words: range
) -> tuple[list[list[str]], list[list[str]], list[Links]]:
    """Returns pairs whose words have one translation each, in another order, and their links."""
    random = Random(seed)
    sources, targets, links = [], [], []
    for _ in range(count):
        chosen = random.sample(words, random.randint(3, 7))
        order = list(range(len(chosen)))
        swap = random.randrange(len(chosen) - 1)
        order[swap : swap + 2] = reversed(order[swap : swap + 2])
        sources.append([f"s{word}" for word in chosen])
        targets.append([f"t{chosen[index]}" for index in order])
        links.append({(index, position) for position, index in enumerate(order)})
    return sources, targets, links


def measure(found: list[Links], expected: list[Links]) -> float:
    right = sum(len(ours & theirs) for ours, theirs in zip(found, expected, strict=True))
    return 2 * right / sum(map(len, [*found, *expected]))


@pytest.fixture(scope="module")
def aligner() -> WordAligner:
    sources, targets, _ = make_pairs(400, 1, words=range(60))
    return train_aligner(zip(sources, targets, strict=True), tuple)


def test_words_that_the_aligner_never_saw_are_found_by_the_other_pairs(
    aligner: WordAligner,
) -> None:
    # Two thirds of the words are new.
    sources, targets, expected = make_pairs(150, 2, words=range(40, 100))
    assert measure(aligner.align(sources, targets), expected) < 0.8
    assert measure(align_together(aligner, sources, targets), expected) > 0.97


def test_what_the_aligner_knows_counts_where_the_pairs_show_little(aligner: WordAligner) -> None:
    sources, targets, expected = make_pairs(10, 3, words=range(60))
    assert measure(align_together(aligner, sources, targets), expected) > 0.97
    assert measure(align_together(train_aligner([], tuple), sources, targets), expected) < 0.9


def test_it_is_the_same_from_a_file_and_by_the_number_of_times_a_pair_comes(
    aligner: WordAligner, tmp_path: Path
) -> None:
    sources, targets, _ = make_pairs(40, 4, words=range(40, 80))
    expected = align_together(aligner, sources, targets)
    aligner.save(tmp_path / "aligner.safetensors")
    loaded = WordAligner.load(tmp_path / "aligner.safetensors")
    assert align_together(loaded, sources, targets) == expected
    assert align_together(aligner, sources * 3, targets * 3) == expected * 3


def test_more_pairs_than_memory_may_hold_are_aligned_in_groups(aligner: WordAligner) -> None:
    sources, targets, _ = make_pairs(40, 5, words=range(40, 80))
    sizes = [len(source) * len(target) for source, target in zip(sources, targets, strict=True)]
    first = align_together(aligner, sources[:25], targets[:25])
    second = align_together(aligner, sources[25:], targets[25:])
    found = align_together(aligner, sources, targets, max_cells=sum(sizes[:25]))
    assert sum(sizes[25:]) <= sum(sizes[:25])
    assert found == [*first, *second]


def make_pairs_of_any_length(count: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Returns pairs whose words come from few, so that much hangs on their order."""
    random = Random(seed)
    sources = [random.choices("abcdefgh", k=random.randint(1, 40)) for _ in range(count)]
    targets = [
        [word.upper() for word in source for _ in range(random.randint(0, 2))] or ["A"]
        for source in sources
    ]
    return sources, targets


@pytest.mark.parametrize("cells", [1, 900, 9_000])
def test_links_do_not_depend_on_how_blocks_are_cut(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    sources, targets = make_pairs_of_any_length(120, 6)
    nothing = train_aligner([], tuple)
    expected = align_together(nothing, sources, targets)
    monkeypatch.setattr(pair_blocks, "CELLS_AT_ONCE", cells)
    assert align_together(nothing, sources, targets) == expected


def test_blank_and_very_long_sides_have_no_links(aligner: WordAligner) -> None:
    sources, targets = [["s1", "s2"], [], ["s1"], ["s1"] * 500], [["t1", "t2"], ["t1"], [], ["t1"]]
    assert align_together(aligner, sources, targets) == [{(0, 0), (1, 1)}, set(), set(), set()]
    assert align_together(aligner, [], []) == []


def test_a_word_is_aligned_by_the_counts_of_all_others() -> None:
    # "a" stands beside "x", and elsewhere beside "y".
    pairs = [(np.array([0]), np.array([0])), (np.array([0]), np.array([1]))]
    words, of_pairs = number_pairs(pairs, 2, max_words=10)

    def know_nothing(num_words: int, num_given: int) -> PriorCounts:
        return PriorCounts(
            np.zeros(3), np.zeros(num_given), np.zeros(num_words), num_words, begin_jumps()
        )

    learner = AlignmentLearner(of_pairs, words, know_nothing(2, 1), know_nothing(1, 2), none=0.1)
    before, _ = learner.expect(0, by_order=False)
    # Of two words each has the probability of 1/2, with a counterpart or without.
    np.testing.assert_allclose(before.by_source, 0.9)
    learner.learn(by_words=1, by_order=0)
    after, _ = learner.expect(0, by_order=False)
    # Either side says 0.9: 0.81 links of each. Less its own, "x" has none of 0.81 links of "a", and
    # half of the 5 that the prior weighs: 2.5 / 5.81. Without a counterpart there were 0.1 of each
    # word, and 0.001 are added: less its own 0.001 of 0.102.
    linked, unlinked = 0.9 * 2.5 / 5.81, 0.1 * 0.001 / 0.102
    np.testing.assert_allclose(after.by_source, linked / (linked + unlinked), rtol=1e-6)


def test_weights_of_jumps_by_hand() -> None:
    # Two words a side, any two as likely, each with a counterpart: one jump, from either word.
    pairs = [(np.array([0, 1]), np.array([0, 1]))]
    words, of_pairs = number_pairs(pairs, 2, max_words=10)
    begun = begin_jumps()
    nothing = PriorCounts(np.zeros(len(words.keys)), np.zeros(2), np.zeros(2), 2, begun)
    learner = AlignmentLearner(of_pairs, words, nothing, nothing, none=0.0)
    learner.learn(by_words=0, by_order=1)
    back, stay, ahead = begun[MAX_JUMP - 1 : MAX_JUMP + 2]
    expected, chances = np.zeros((2, len(begun)))
    expected[MAX_JUMP - 1] = 0.5 * back / (back + stay)
    expected[MAX_JUMP] = 0.5 * stay / (back + stay) + 0.5 * stay / (stay + ahead)
    expected[MAX_JUMP + 1] = 0.5 * ahead / (stay + ahead)
    chances[MAX_JUMP - 1 : MAX_JUMP + 2] = 0.5, 1.0, 0.5
    # The weights that it began with count for 200 chances of each jump.
    weights = (expected + 200.0 * begun) / (chances + 200.0)
    for side in (learner.forward, learner.backward):
        np.testing.assert_allclose(side.jumps, weights / weights.sum(), rtol=1e-12)


def test_probabilities_of_words_that_are_spelled_alike() -> None:
    alike = pair_blocks.SimilarWords.find([["nation", "42", "w"]], [["nationen", "42", "w"]])
    emissions = np.zeros((1, 3, 3))
    # What is likelier already stays so.
    emissions[0, 2, 2] = 0.5
    alike.raise_to(emissions)
    np.testing.assert_array_equal(emissions[0], np.diag([0.01, 0.1, 0.5]))
    sides = np.zeros((1, 3, 3))
    alike.turn().raise_to(sides)
    np.testing.assert_array_equal(sides[0], np.diag([0.01, 0.1, 0.1]))
