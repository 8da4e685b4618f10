from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.report.score_page import DiffSpan, mark_differences


def marked(translation: str, reference: str) -> str:
    return "".join(
        f"[{part.text}]" if part.differs else part.text
        for part in mark_differences(translation, reference)
    )


@pytest.mark.parametrize(
    ("translation", "reference", "expected"),
    [
        ("a b c", "a b c", "a b c"),
        ("a x y c", "a b c", "a [x y] c"),
        ("x a  y", "a", "[x] a  [y]"),
        ("Hallo, Welt!", "Hallo Welt.", "Hallo[,] Welt[!]"),
        ("我爱你们", "我恨你们", "我[爱]你们"),
        (" a ", "a", " a "),
        ("a b", "", "[a b]"),
        ("", "a", ""),
    ],
)
def test_words_that_the_reference_has_not_are_marked(
    translation: str, reference: str, expected: str
) -> None:
    assert marked(translation, reference) == expected


@given(st.text(alphabet="ab字 .\n"), st.text(alphabet="ab字 ."))
def test_stretches_are_the_translation(translation: str, reference: str) -> None:
    stretches = mark_differences(translation, reference)
    assert "".join(part.text for part in stretches) == translation
    # None is cut in two.
    assert all(one.differs != next_.differs for one, next_ in pairwise(stretches))
    assert mark_differences("a", "a") == (DiffSpan("a", differs=False),)
