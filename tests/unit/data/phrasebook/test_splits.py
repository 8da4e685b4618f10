"""What the corpus promises: the same pairs everywhere, no sentence in two splits."""

from itertools import islice

import pytest

from mtkit.data.phrasebook import PHRASEBOOK_SPLITS, generate_pairs

NUM_TRAIN, NUM_HELD_OUT = 10_000, 1_000


@pytest.fixture(scope="module")
def pairs() -> dict[str, list[tuple[str, str]]]:
    return {
        split: list(generate_pairs(split, NUM_TRAIN if split == "train" else NUM_HELD_OUT))
        for split in PHRASEBOOK_SPLITS
    }


def test_as_many_pairs_as_asked_for_and_all_distinct(
    pairs: dict[str, list[tuple[str, str]]],
) -> None:
    assert len(set(pairs["train"])) == NUM_TRAIN
    assert len(set(pairs["dev"])) == len(set(pairs["test"])) == NUM_HELD_OUT


def test_a_shorter_request_is_the_start_of_a_longer_one(
    pairs: dict[str, list[tuple[str, str]]],
) -> None:
    assert list(generate_pairs("test", 50)) == pairs["test"][:50]
    assert list(generate_pairs("test", 50, seed=2)) != pairs["test"][:50]


@pytest.mark.parametrize("side", [0, 1])
def test_no_sentence_stands_in_two_splits(
    pairs: dict[str, list[tuple[str, str]]], side: int
) -> None:
    sentences = {split: {pair[side] for pair in drawn} for split, drawn in pairs.items()}
    assert not sentences["train"] & sentences["dev"]
    assert not sentences["train"] & sentences["test"]
    assert not sentences["dev"] & sentences["test"]


def test_one_german_for_one_english_and_back(pairs: dict[str, list[tuple[str, str]]]) -> None:
    every_pair = {pair for drawn in pairs.values() for pair in drawn}
    assert len({source for source, _ in every_pair}) == len(every_pair)
    assert len({target for _, target in every_pair}) == len(every_pair)


def test_sentences_look_like_sentences(pairs: dict[str, list[tuple[str, str]]]) -> None:
    for source, target in pairs["train"]:
        for text in (source, target):
            assert text[0].isupper()
            assert text[-1] in ".?"
            assert not any(slip in text for slip in ("  ", ",,", " ,", ",."))
        assert 2 <= source.count(" ") <= 14
        assert source[-1] == target[-1]


def test_first_pairs_stay_what_they_are() -> None:
    """A change of these is a change of the corpus, which scores elsewhere rest on."""
    assert list(islice(generate_pairs("dev", 5), 2)) == FIRST_PAIRS


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of train, dev, test, got 'valid'"):
        generate_pairs("valid", 1)


@pytest.mark.parametrize("count", [-1, 10_000_000])
def test_a_count_beyond_the_grammar_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"got {count}"):
        generate_pairs("train", count)


FIRST_PAIRS = [
    (
        "There are many hospitals in the city.",
        "Es gibt viele Krankenhäuser in der Stadt.",
    ),
    (
        "I hope that every dancer can sing at home next year.",
        "Ich hoffe, dass jede Tänzerin nächstes Jahr zu Hause singen kann.",
    ),
]
