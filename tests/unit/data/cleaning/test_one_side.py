"""Lines of one language are dropped as one side of a pair is; nothing compares them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.cleaning.clean import Cleaned, Cleaner
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.recipe.cleaning import Cleaning

PAIRED = ("length_ratio", "identical", "numbers", "urls")
HELD_OUT = ["The committee will meet again in the spring.", "Yes."]


def clean(lines: list[str], of: str = "en", /, **settings: Any) -> Cleaned:
    cleaner = Cleaner(
        Cleaning.model_validate(settings),
        languages=(of,),
        length_ratio=1.0,
        held_out=HeldOut.of(((line,) for line in HELD_OUT), ("nmt_nfkc",)),
    )
    return cleaner.clean(lines)


LINES = st.lists(
    st.text(st.sampled_from("ab cäé12.,\x07\ufffdÐБ日\u00ad\t"), max_size=12)
    | st.sampled_from(["no no no no no no", *HELD_OUT, HELD_OUT[0].upper()]),
    max_size=20,
)


@given(LINES)
def test_a_line_is_judged_as_it_is_beside_itself(lines: list[str]) -> None:
    """As source and target of a pair at once, with what compares the sides off."""
    off = {name: {"enabled": False} for name in PAIRED}
    # Only long lines: of short ones both sides match the same held-out pair.
    off["overlap"] = {"enabled": False}
    pairs = Cleaner(
        Cleaning.model_validate(off),
        languages=("en", "en"),
        length_ratio=1.0,
        held_out=HeldOut.of(()),
    ).clean(lines, lines)
    found = clean(lines, overlap={"enabled": False})
    assert found.sides == (pairs.sides[0],)
    assert found.indices.tolist() == pairs.indices.tolist()
    assert {name: indices.tolist() for name, indices in found.dropped.items()} == {
        name: indices.tolist() for name, indices in pairs.dropped.items()
    }
    # Each line stands on both sides there.
    assert {kind: 2 * count for kind, count in found.repaired.items()} == pairs.repaired
    assert found.misaligned == []


def test_filters_that_compare_sides_aren_t_there() -> None:
    names = clean(["A line."]).dropped.keys()
    assert not names & set(PAIRED)
    assert list(names) == [
        "blank", "encoding", "length", "letters", "script", "repetition", "overlap"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "is_dropped"),
    [
        (HELD_OUT[0], True),
        ("the committee will meet again in the SPRING", True),
        ("The committee will meet again.", False),
        # Too short to be a copy.
        ("Yes.", False),
    ],
)
def test_copies_of_held_out_lines(line: str, is_dropped: bool) -> None:
    found = clean([line, "Another line."])
    assert found.dropped["overlap"].tolist() == ([0] if is_dropped else [])


def test_nothing_held_out_drops_nothing() -> None:
    cleaner = Cleaner(
        Cleaning(),
        languages=("en",),
        length_ratio=1.0,
        held_out=HeldOut.of((), ("identity",)),
    )
    assert np.array_equal(cleaner.clean(["One line."]).indices, [0])


@pytest.mark.parametrize(
    ("language", "scripts", "line", "is_dropped"),
    [
        ("de", (), "Это по-русски.", True),
        ("ru", (), "Это по-русски.", False),
        ("ru", ("Latn",), "Это по-русски.", True),
        ("mul", (), "Это по-русски.", False),
        ("mul", ("Cyrl", "Latn"), "Это или that.", False),
        ("mul", ("Latn",), "Это по-русски.", True),
    ],
)
def test_scripts(language: str, scripts: tuple[str, ...], line: str, is_dropped: bool) -> None:
    found = clean([line], language, script={"source": scripts})
    dropped = found.dropped["script"]
    assert dropped.tolist() == ([0] if is_dropped else [])


def test_what_is_said_of_an_unknown_script() -> None:
    cleaner = Cleaner(
        Cleaning(), languages=("mul",), length_ratio=1.0, held_out=HeldOut.of((), ("identity",))
    )
    [note] = cleaner.clean(["x"]).notes
    assert "can't check the text: no script is known for the language 'mul'" in note
    assert "data.cleaning.script.source" in note


def test_languages() -> None:
    settings: dict[str, Any] = {"language": {"enabled": True}}
    lines = ["The weather was very bad yesterday.", "Das Wetter war gestern sehr schlecht."]
    assert clean(lines, **settings).dropped["language"].tolist() == [1]
    assert clean(lines, "de", **settings).dropped["language"].tolist() == [0]
    assert clean(lines, "mul", **settings).dropped["language"].tolist() == []
