"""Stretches whose two sides don't go together."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from mtkit.data.cleaning.alignment import find_misaligned

Lengths = NDArray[np.int64]


@pytest.fixture
def lengths() -> tuple[Lengths, Lengths]:
    """Lengths of 10,000 made-up pairs, whose logarithms correlate at 0.89 (0.5 / hypot .5, .25)."""
    generator = np.random.default_rng(3)
    log_source = generator.normal(4.0, 0.5, 10_000)
    log_target = log_source + generator.normal(0.1, 0.25, 10_000)
    return np.exp(log_source).astype(np.int64), np.exp(log_target).astype(np.int64)


def test_pairs_that_go_together(lengths: tuple[Lengths, Lengths]) -> None:
    assert find_misaligned(*lengths) == []


@pytest.mark.parametrize("shift", [-7, -1, 1, 3])
@pytest.mark.parametrize("first", [0, 4_321, 9_000])
def test_a_stretch_that_is_shifted(
    lengths: tuple[Lengths, Lengths], first: int, shift: int
) -> None:
    source, target = lengths
    target = target.copy()
    target[first : first + 1_000] = np.roll(target[first : first + 1_000], shift)
    (found,) = find_misaligned(source, target)
    assert abs(found["first"] - first) <= 100
    assert abs(found["last"] - (first + 999)) <= 100
    assert abs(found["correlation"]) < 0.4
    assert found["shift"] == shift


def test_a_file_that_is_shifted_from_some_line_on(lengths: tuple[Lengths, Lengths]) -> None:
    source, target = lengths
    target = np.concatenate([target[:6_000], target[6_001:], target[:1]])
    (found,) = find_misaligned(source, target)
    assert abs(found["first"] - 6_000) <= 100
    assert (found["last"], found["shift"]) == (9_999, -1)


def test_two_stretches_with_shifts_of_their_own(lengths: tuple[Lengths, Lengths]) -> None:
    source, target = lengths
    # A line is missing at 2,000, another at 3,000; two others come at 5,000.
    parts = target[:2_000], target[2_001:3_000], target[3_001:5_000], target[:2], target[5_000:]
    first, second = find_misaligned(source, np.concatenate(parts))
    assert (first["shift"], second["shift"]) == (-1, -2)
    for found, expected in zip(
        (first["first"], first["last"], second["first"], second["last"]),
        (2_000, 2_998, 2_999, 4_997),
        strict=True,
    ):
        assert abs(found - expected) <= 50


def test_a_shift_of_many_lines(lengths: tuple[Lengths, Lengths]) -> None:
    source, target = lengths
    (found,) = find_misaligned(source[40:], target[:-40])
    assert found["shift"] == 40


def test_what_no_shift_mends(lengths: tuple[Lengths, Lengths]) -> None:
    source, target = lengths
    (found,) = find_misaligned(source, np.random.default_rng(4).permutation(target))
    assert (found["first"], found["last"], found["shift"]) == (0, 9_999, 0)


def test_a_single_low_window_is_no_stretch() -> None:
    # Its half at either end goes together again: a stretch of less than nothing was reported.
    generator = np.random.default_rng(3)
    source = generator.integers(20, 200, 3_000)
    target = source.copy()
    target[1_200:1_430] = generator.permutation(target[1_200:1_430])
    assert find_misaligned(source, target) == []
    target[1_430:1_900] = generator.permutation(target[1_430:1_900])
    (found,) = find_misaligned(source, target)
    assert found["first"] < found["last"]


def test_lengths_that_tell_nothing() -> None:
    generator = np.random.default_rng(5)
    assert find_misaligned(np.full(2_000, 5), generator.integers(1, 90, 2_000)) == []
    assert find_misaligned(np.zeros(0, np.int64), np.zeros(0, np.int64)) == []
    few = generator.integers(1, 90, 499)
    assert find_misaligned(few, few[::-1].copy()) == []


CORPORA = [
    ("mixed_en_de/train", "en", "de"),
    ("mixed_en_de/dev", "en", "de"),
    ("mixed_en_de/test", "en", "de"),
    ("newstest_en_fr/newstest2013", "en", "fr"),
    ("newstest_en_fr/newstest2014", "en", "fr"),
    ("flores200/devtest", "en", "de"),
    ("flores200/devtest", "en", "fr"),
    ("flores200/devtest", "en", "zh"),
    ("flores200/devtest", "en", "ja"),
    ("multi30k/train", "en", "de"),
    ("multi30k/train", "en", "fr"),
    ("multi30k/train", "de", "fr"),
    ("opennmt_sample_en_de/train", "en", "de"),
    ("python_docs_en_zh/train", "en", "zh"),
    ("tatoeba_en_fr/train", "en", "fr"),
]


@pytest.mark.parametrize(("name", "source", "target"), CORPORA)
def test_real_text_gives_no_false_alarm_and_a_shift_is_found(
    corpus: Callable[..., tuple[list[str], list[str]]], name: str, source: str, target: str
) -> None:
    source_lengths, target_lengths = (
        np.array([len(line.strip()) for line in lines]) for lines in corpus(name, source, target)
    )
    for first in range(0, len(source_lengths), 10_000):
        block = slice(first, first + 10_000)
        assert find_misaligned(source_lengths[block], target_lengths[block]) == []
    # The documentation is sorted by kind of sentence here and there, where neighbours are alike.
    first = max(0, min(5_000, len(source_lengths) - 1_100))
    shifted = target_lengths[:10_000].copy()
    shifted[first : first + 1_000] = np.roll(shifted[first : first + 1_000], 1)
    (found,) = find_misaligned(source_lengths[:10_000], shifted)
    assert abs(found["first"] - first) <= 250
    assert abs(found["last"] - (first + 999)) <= 250
    assert found["shift"] == 1
