"""The front door: what becomes of a block."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.cleaning.clean import Cleaned, Cleaner, learn_length_ratio
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.recipe.cleaning import Cleaning

ORDER = [
    "blank", "encoding", "length", "length_ratio", "identical", "letters", "script", "numbers",
    "urls", "repetition", "overlap",
]  # fmt: skip


def verdicts(cleaned: Cleaned) -> dict[str, Any]:
    """Returns all of a result that doesn't tell the time."""
    return {
        "sources": cleaned.sides[0],
        "targets": cleaned.sides[1],
        "indices": cleaned.indices.tolist(),
        "dropped": {name: places.tolist() for name, places in cleaned.dropped.items()},
        "repaired": cleaned.repaired,
    }


def test_each_filter_has_its_pair(make_cleaner: Callable[..., Cleaner]) -> None:
    held_out = [("A sentence that is held out here.", "Ein Satz, der hier zurückgehalten wird.")]
    pairs = {
        "blank": ("one", " "),
        "encoding": ("two\ufffd", "zwei"),
        "length": ("a" * 2_001, "b" * 2_001),
        "length_ratio": ("three", "drei, und zwar so lang, wie kein Mensch drei übersetzt"),
        "identical": ("Four ", "four"),
        "letters": ("12:34:56", "zwölf Uhr"),
        "script": ("five", "Пять"),
        "numbers": ("from 1999 to 2001", "von 1998 bis 2002"),
        "urls": ("see www.example.org", "siehe www.beispiel.de"),
        "repetition": ("ha ha ha ha ha ha", "ho ho ho"),
        "overlap": ("a sentence, that is held out here", "Es ist ein Satz, der da steht."),
    }
    kept = ("\u0084Good\u0093\tmorning ", "Guten\u2028Morgen")
    cleaner = make_cleaner(length_ratio=1.1, held_out=held_out)
    cleaned = cleaner.clean(*zip(*pairs.values(), kept, strict=True))
    assert list(cleaned.dropped) == ORDER
    assert {name: places.tolist() for name, places in cleaned.dropped.items()} == {
        name: [place] for place, name in enumerate(pairs)
    }
    assert (cleaned.sides[0], cleaned.sides[1]) == (["„Good“ morning"], ["Guten Morgen"])
    assert cleaned.indices.tolist() == [len(pairs)]
    assert cleaned.repaired["c1_control"] == 1
    assert cleaned.repaired["separator"] == 2
    assert cleaned.seconds.keys() == {*ORDER, "characters", "repairs", "alignment"}
    assert cleaned.misaligned == []


def test_a_pair_counts_under_the_first_filter_that_drops_it(
    make_cleaner: Callable[..., Cleaner],
) -> None:
    source, target = ["\x00 12 13 ??? www.a.org", ""], ["\x00 12 13 ??? www.a.org", "\x00"]
    dropped = make_cleaner().clean(source, target).dropped
    assert dropped["blank"].tolist() == [1]
    assert dropped["encoding"].tolist() == [0]
    assert sum(map(len, dropped.values())) == 2
    without = make_cleaner(encoding={"enabled": False}).clean(source, target).dropped
    assert "encoding" not in without
    assert without["identical"].tolist() == [0]


def test_an_empty_block_and_one_of_which_nothing_is_left(
    make_cleaner: Callable[..., Cleaner],
) -> None:
    cleaner = make_cleaner(held_out=[("a", "b")], language={"enabled": True})
    for lines in ([], ["", " "], ["\x00"] * 3, ["?"] * 700):
        cleaned = cleaner.clean(lines, lines)
        assert (cleaned.sides[0], cleaned.sides[1], len(cleaned.indices)) == ([], [], 0)
        assert sum(map(len, cleaned.dropped.values())) == len(lines)
        assert list(cleaned.dropped) == [*ORDER, "language"]


def test_sides_of_unequal_length(make_cleaner: Callable[..., Cleaner]) -> None:
    with pytest.raises(ValueError, match="2 sources, but 1 targets"):
        make_cleaner().clean(["a", "b"], ["c"])


CHARACTERS = st.sampled_from("aab  ß中Ж1.\x00\x85\xad\u200b\u2028\ufeff\ufffdÃ¼")
PAIRS = st.lists(
    st.tuples(st.text(CHARACTERS, max_size=9), st.text(CHARACTERS, max_size=9)), max_size=12
)


@given(PAIRS, st.integers(0, 12))
def test_every_pair_is_kept_or_dropped_once_wherever_a_block_is_cut(
    pairs: list[tuple[str, str]], cut: int
) -> None:
    cleaner = Cleaner(
        Cleaning(),
        languages=("en", "de"),
        length_ratio=1.0,
        held_out=HeldOut.of([("ab", "ba")]),
    )

    def clean(part: list[tuple[str, str]]) -> Cleaned:
        return cleaner.clean([source for source, _ in part], [target for _, target in part])

    whole, left, right = clean(pairs), clean(pairs[:cut]), clean(pairs[cut:])
    groups = [whole.indices, *whole.dropped.values()]
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(pairs)))
    assert all((np.diff(group) > 0).all() for group in groups)
    assert len(whole.sides[0]) == len(whole.sides[1]) == len(whole.indices)
    offset = min(cut, len(pairs))
    assert whole.sides[0] == left.sides[0] + right.sides[0]
    assert whole.sides[1] == left.sides[1] + right.sides[1]
    for name, places in whole.dropped.items():
        parts = [left.dropped[name], right.dropped[name] + offset]
        assert places.tolist() == np.concatenate(parts).tolist()
    assert whole.repaired == dict(Counter(left.repaired) + Counter(right.repaired)) | {
        kind: 0 for kind, count in whole.repaired.items() if not count
    }


def _clean_elsewhere(arguments: dict[str, Any], sources: list[str], targets: list[str]) -> Any:
    return verdicts(Cleaner(**arguments).clean(sources, targets))


def test_another_process_says_the_same() -> None:
    arguments = {
        "settings": Cleaning(),
        "languages": ("en", "de"),
        "length_ratio": 1.1,
        "held_out": HeldOut.of([("Held out sentence number one.", "Satz Nummer eins im Test.")]),
    }
    sources = ["held out sentence, number one", "a b a b a b a b a b", "fine \u0085", "x\x00"] * 50
    targets = ["etwas anderes als der Satz", "c d e f g h i j", "gut …", "x"] * 50
    # Spawned: strings hash otherwise there, and no table is inherited.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(_clean_elsewhere, (arguments, sources, targets))
    assert there == _clean_elsewhere(arguments, sources, targets)
    assert len(there["dropped"]["overlap"]) == len(there["dropped"]["repetition"]) == 50


def test_length_ratio() -> None:
    assert learn_length_ratio([("abcd ", "ab"), ("ab", " c\u00ad")]) == 0.5
    assert learn_length_ratio([]) == 1.0
    assert learn_length_ratio([("a", "")]) == 1.0
