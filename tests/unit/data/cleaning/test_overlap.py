"""Development and test sentences inside the training text."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.data.cleaning import Cleaner, HeldOut
from mtkit.data.cleaning.characters import build_table, read_text
from mtkit.data.cleaning.overlap import _hash_folded, _hash_lines, fold

HELD_OUT = [
    ("The quick brown fox jumps.", "Der schnelle braune Fuchs springt."),
    ("Yes.", "Ja."),
    ("No.", "Nein."),
    ("???", "!!!"),
    ("Stra\u00adße in 2010, ΐ ŉ", "دوازده ۱۲"),
]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("the QUICK brown fox, jumps", "anything", True),
        ("anything", "„Der schnelle braune Fuchs“ - springt", True),
        ("The quick brown fox jumped.", "Der schnelle Fuchs.", False),
        # Shorter than 20 letters: both sides must match the same pair.
        ("YES", "ja!", True),
        ("Yes.", "Doch.", False),
        ("Yes.", "Nein.", False),
        ("Yes. No.", "Ja. Nein.", False),
        ("???", "!!!", False),
        ("...", "...", False),
        ("STRASSE in 2010: ΐ ŉ", "دوازده (۱۲)", True),
    ],
)
def test_overlap(
    make_cleaner: Callable[..., Cleaner], source: str, target: str, *, expected: bool
) -> None:
    cleaner = make_cleaner("overlap", held_out=HELD_OUT)
    assert bool(len(cleaner.clean([source], [target]).dropped["overlap"])) is expected


def test_from_how_many_letters_one_side_is_enough(make_cleaner: Callable[..., Cleaner]) -> None:
    for min_letters, expected in ((3, 1), (4, 0)):
        cleaner = make_cleaner("overlap", held_out=HELD_OUT, min_letters=min_letters)
        assert len(cleaner.clean(["yes"], ["x"]).dropped["overlap"]) == expected


def test_nothing_is_held_out(make_cleaner: Callable[..., Cleaner]) -> None:
    assert len(make_cleaner("overlap").clean(["a"], ["b"]).places) == 1
    empty = make_cleaner("overlap", held_out=[("", "")])
    assert len(empty.clean(["?"], ["!"]).places) == 1


def test_what_is_held_out_goes_to_another_process() -> None:
    before = HeldOut.of(HELD_OUT)
    after = pickle.loads(pickle.dumps(before))
    assert after.sources == before.sources
    assert np.array_equal(after.target_hashes, before.target_hashes)


@example(["a\U000e0100", "\U000e0100"])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("ßŉΐﬃİ"))))
def test_a_line_hashes_as_what_it_folds_to(lines: list[str]) -> None:
    lines = [*lines, "x"]
    hashes = _hash_lines(read_text(lines, build_table((), ())))
    assert np.sort(hashes).tolist() == _hash_folded(map(fold, lines)).tolist()


def test_a_long_line_hashes_as_what_it_folds_to() -> None:
    line = "Maß für Maß, " * 5_000
    hashes = _hash_lines(read_text([line], build_table((), ())))
    assert hashes.tolist() == _hash_folded([fold(line)]).tolist()
    assert fold(line) == "massfürmass" * 5_000
