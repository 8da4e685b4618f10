"""Accuracy and macro-F1, by hand and as scikit-learn's documentation has them."""

import math

import pytest

from mtkit.evaluation.label_scores import compute_label_metrics, evaluate_labels
from mtkit.recipe.evaluation import Evaluation


def score(found: str, wanted: str, labels: str) -> tuple[float, float]:
    accuracy, macro_f1 = compute_label_metrics(list(found), list(wanted), list(labels))
    return accuracy.value, macro_f1.value


def test_the_example_of_scikit_learns_f1_score() -> None:
    # f1_score([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], average="macro") is 0.26...: F1 of 0 is
    # 2 * 2 / (3 + 2) = 0.8, of the others 0.
    accuracy, macro_f1 = score("021001", "012012", "012")
    assert math.isclose(accuracy, 100 * 2 / 6)
    assert math.isclose(macro_f1, 100 * 0.8 / 3)


@pytest.mark.parametrize(
    ("found", "wanted", "accuracy", "f1"),
    [
        ("ab", "ab", 1.0, 1.0),
        ("aaaa", "aaab", 3 / 4, (6 / 7 + 0) / 2),
        ("aabb", "abab", 1 / 2, 1 / 2),
        # c is neither found nor wanted: the mean is over two labels.
        ("aab", "abb", 2 / 3, (2 / 3 + 2 / 3) / 2),
        # Found, though never wanted, it counts with 0.
        ("acb", "abb", 2 / 3, (1 + 2 / 3 + 0) / 3),
    ],
)
def test_cases_by_hand(found: str, wanted: str, accuracy: float, f1: float) -> None:
    values = score(found, wanted, "abc")
    assert values == pytest.approx((100 * accuracy, 100 * f1))


def test_intervals_and_differences() -> None:
    wanted = list("ab" * 100)
    better = [*wanted[:-10], *"aaaaaaaaaa"]
    worse = list("aab" * 66 + "aa")
    evaluated = evaluate_labels(
        {"one": worse, "two": better}, "test", wanted, ["a", "b"], Evaluation()
    )
    assert evaluated.num_sentences == 200
    one, two = evaluated.systems
    assert [each.name for each in two.scores] == ["accuracy", "macro-F1"]
    assert two.scores[0].value == pytest.approx(97.5)
    for each, base in zip(two.scores, one.scores, strict=True):
        assert each.interval.low < each.value < each.interval.high
        assert each.difference.p_value < 0.01
        assert each.difference.value == pytest.approx(each.value - base.value)
    assert one.scores[0].difference is None


def test_one_text_has_no_interval() -> None:
    [result] = evaluate_labels({"m": ["a"]}, "test", ["a"], ["a", "b"], Evaluation()).systems
    assert [each.interval for each in result.scores] == [None, None]
