import pytest

from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.join import join_parts, join_texts


@pytest.mark.parametrize(
    ("language", "joined"),
    [("de", "a b"), ("zh", "ab"), ("zh_Hans", "ab"), ("ja", "ab"), ("", "a b"), ("ko", "a b")],
)
def test_translations_are_joined_as_the_language_does(language, joined):
    assert join_texts(["a", "", "b"], language) == joined


def _hypothesis(text: str, *, is_finished: bool = True) -> Hypothesis:
    scores = tuple(-0.5 for _ in text)
    return Hypothesis(
        tuple(map(ord, text)), -0.5 * len(text), -0.25, is_finished, scores, None, text, tuple(text)
    )


def test_the_k_th_of_a_line_is_made_of_its_parts_k_th():
    first = [_hypothesis("ab"), _hypothesis("c")]
    second = [_hypothesis("d"), _hypothesis("ef", is_finished=False), _hypothesis("g")]
    best, other = join_parts([first, second], "de")
    assert (best.text, other.text) == ("ab d", "c ef")
    assert [token.piece for token in best.tokens] == ["a", "b", "d"]
    assert best.token_ids == tuple(map(ord, "abd"))
    assert (best.log_probability, best.score) == (-1.5, -0.5)
    assert (best.reached_limit, other.reached_limit) == (False, True)


def test_a_line_of_one_part_has_its_hypotheses():
    alone = [_hypothesis("a"), _hypothesis("b")]
    assert join_parts([alone], "de") == tuple(alone)
