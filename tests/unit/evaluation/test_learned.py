"""Statistics of learned metrics, from a metric that is played."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from mtkit.evaluation.evaluate import ReferenceText, evaluate
from mtkit.evaluation.learned import Row
from mtkit.evaluation.report.tables import list_metrics
from mtkit.recipe.evaluation import Evaluation

TEXT = ReferenceText("test", [["ja", "nein"], ["doch", "nie"]], sources=["yes", "no"])
SETTINGS = Evaluation(metrics=("ter", "./metric"))


@dataclass
class LengthMetric:
    """A sentence's score is the length of its translation, over 10."""

    name: str = "COMET"
    model: str = "da"
    signature: str = "model:da"
    calls: int = 0

    def score(self, rows: Sequence[Row]) -> np.ndarray:
        self.calls += 1
        self.rows = rows
        return np.array([len(translation) / 10 for _, translation, _ in rows])


def test_each_system_has_the_mean_of_its_sentences_times_100() -> None:
    metric = LengthMetric()
    systems = {"a": ["jaja", "ne"], "b": ["j", "n"]}
    first, second = evaluate(systems, TEXT, SETTINGS, learned=[metric]).systems
    assert [score.name for score in first.scores] == ["TER", "COMET"]
    # By hand: (0.4 + 0.2) / 2, and 0.1.
    assert [each.scores[1].value for each in (first, second)] == pytest.approx([30.0, 10.0])
    assert first.scores[1].signature == "model:da"
    # All systems at once, so that a text is encoded once; the first set of references alone.
    assert metric.calls == 1
    assert metric.rows == [
        ("yes", "jaja", "ja"), ("no", "ne", "nein"), ("yes", "j", "ja"), ("no", "n", "nein"),
    ]  # fmt: skip


def test_significance_is_that_of_a_mean() -> None:
    """A system that is better by 0.1 in each sentence is so in each resample."""
    lines = [["x" * (1 + number % 7) for number in range(200)], []]
    lines[1] = [line + "x" for line in lines[0]]
    text = ReferenceText("test", [["ja"] * 200], sources=["yes"] * 200)
    systems = dict(zip("ab", lines, strict=True))
    found = evaluate(systems, text, SETTINGS, learned=[LengthMetric()]).systems
    difference = found[1].scores[1].difference
    assert difference is not None
    assert difference.value == pytest.approx(10.0)
    assert (difference.interval.low, difference.interval.high) == pytest.approx((10.0, 10.0))
    assert difference.p_value < 0.01
    interval = found[0].scores[1].interval
    assert interval is not None
    # By the normal approximation: 1.96 standard errors of the mean around it.
    lengths = np.array(list(map(len, lines[0]))) * 10.0
    error = 1.96 * lengths.std() / np.sqrt(200)
    assert interval.low == pytest.approx(lengths.mean() - error, abs=0.5)
    assert interval.high == pytest.approx(lengths.mean() + error, abs=0.5)


def test_two_of_a_kind_are_named_apart() -> None:
    settings = Evaluation(metrics=("./da", "./mqm"))
    learned = [LengthMetric(), LengthMetric(model="mqm")]
    evaluated = evaluate({"a": ["ja", "nein"]}, TEXT, settings, learned=learned)
    assert [each.name for each in list_metrics(evaluated.systems)] == ["COMET da", "COMET mqm"]
