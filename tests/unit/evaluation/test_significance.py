"""sacreBLEU's own tests and the normal distribution are the oracles."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

import mtkit.evaluation.significance as significance_module
from mtkit.errors import MtkitError
from mtkit.evaluation.results import ScoreDifference, TestKind
from mtkit.evaluation.significance import (
    bootstrap_intervals,
    find_differences,
)
from mtkit.evaluation.statistics import Statistics, measure_systems
from mtkit.recipe.evaluation import Evaluation

from .real_text import read_reference, read_system

SEED = 12345
ALL_METRICS = ("bleu", "chrf", "chrf++", "ter")
WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", ",", ".", "green", "house", "runs", "slowly"]


def make_systems(num_sentences: int) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Returns three systems, the first the best, and two references; some lines are blank."""
    generator = np.random.default_rng(3)

    def change(line: str, share: float) -> str:
        return " ".join(
            str(generator.choice(WORDS)) if generator.random() < share else word
            for word in line.split()
        )

    references = [
        [" ".join(generator.choice(WORDS, generator.integers(12))) for _ in range(num_sentences)]
        for _ in range(2)
    ]
    shares = {"good": 0.2, "fair": 0.23, "poor": 0.35}
    systems = {
        name: [change(line, share) for line in references[0]] for name, share in shares.items()
    }
    return systems, references


def open_metrics(smooth: Any = "exp") -> dict[str, Any]:
    """Returns sacreBLEU's metrics by their names, in the order of `ALL_METRICS`."""
    return {
        "BLEU": BLEU(smooth_method=smooth),
        "chrF2": CHRF(),
        "chrF2++": CHRF(word_order=2),
        "TER": TER(),
    }


@pytest.mark.parametrize("num_references", [1, 2])
@pytest.mark.parametrize("smooth", ["exp", "floor", "add-k", "none"])
@pytest.mark.parametrize(("test", "kind"), [("bootstrap", "bs"), ("randomization", "ar")])
def test_agrees_with_sacrebleu(
    monkeypatch: pytest.MonkeyPatch, test: TestKind, kind: str, smooth: Any, num_references: int
) -> None:
    systems, references = make_systems(40)
    references = references[:num_references]
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    metrics = open_metrics(smooth)
    _, expected = PairedTest(list(systems.items()), metrics, references, kind, 200)()
    measured = measure_systems(systems, references, Evaluation(metrics=ALL_METRICS, smooth=smooth))
    found = find_differences(measured, "good", test=test, resamples=200, seed=SEED)
    intervals = bootstrap_intervals(measured, resamples=200, seed=SEED)
    for row, name in enumerate(systems):
        for column, metric in enumerate(metrics):
            theirs: Any = expected[metric][row]
            if name != "good":
                assert found[name][column].p_value == theirs.p_value
                assert found[name][column].test == test
            if test == "bootstrap":
                interval = intervals[name][column]
                # Their ends are in single precision.
                half = (interval.high - interval.low) / 2
                assert half == pytest.approx(theirs.ci, rel=1e-5, abs=1e-5)


def count_edits(edits: list[int], reference_length: int) -> Statistics:
    """Returns TER's statistics of sentences whose references are all of one length."""
    rows = np.array([[number, reference_length] for number in edits], dtype=np.float64)
    return Statistics(
        metric="ter",
        name="TER",
        signature="",
        higher_is_better=False,
        value=100 * rows[:, 0].sum() / rows[:, 1].sum(),
        per_sentence=rows,
    )


def compare(baseline: Statistics, system: Statistics, **options: Any) -> ScoreDifference:
    """Returns how one system differs from another by one metric."""
    both = {"baseline": [baseline], "system": [system]}
    [found] = find_differences(both, "baseline", **options)["system"]
    return found


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_a_system_does_not_differ_from_itself(test: TestKind) -> None:
    one = count_edits([1, 2, 3], 5)
    found = compare(one, one, test=test, resamples=100, seed=SEED)
    assert (found.value, found.p_value, found.smallest) == (0.0, 1.0, 0.0)
    assert (found.interval.low, found.interval.high) == (0.0, 0.0)


PHRASE = "alpha beta gamma delta epsilon zeta eta"
# Of seven words one or three are others: one score by every metric in every resample.
ONE_OTHER, THREE_OTHERS = PHRASE.replace("delta", "x"), "alpha beta y delta x zeta z"
SAME, UNLIKE = [1] * 23, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 31, 41, 17]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("times", [SAME, UNLIKE], ids=["equal lengths", "unequal lengths"])
@pytest.mark.parametrize("pair", [("", PHRASE), (ONE_OTHER, THREE_OTHERS), (PHRASE, ONE_OTHER)])
@pytest.mark.parametrize(("test", "kind"), [("bootstrap", "bs"), ("randomization", "ar")])
def test_a_constant_difference_is_as_significant_as_sacrebleu_says(
    monkeypatch: pytest.MonkeyPatch,
    test: TestKind,
    kind: str,
    pair: tuple[str, str],
    times: list[int],
    *,
    is_reversed: bool,
) -> None:
    # In single precision, ratios of unequal lengths differ in their last bits.
    systems = {
        name: [" ".join([phrase] * number) for number in times]
        for name, phrase in zip(("one", "other"), pair[::-1] if is_reversed else pair, strict=True)
    }
    references = [[" ".join([PHRASE] * number) for number in times]]
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    _, expected = PairedTest(list(systems.items()), open_metrics(), references, kind, 100)()
    measured = measure_systems(systems, references, Evaluation(metrics=ALL_METRICS))
    found = find_differences(measured, "one", test=test, resamples=100, seed=SEED)["other"]
    for each, (name, theirs) in zip(found, list(expected.items())[1:], strict=True):
        assert each.value != 0.0, name
        assert each.p_value == theirs[1].p_value == 1 / 101, name
        assert abs(each.value) >= each.smallest, name


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_a_difference_of_one_rounding_is_judged_as_any_other(test: TestKind, sign: int) -> None:
    # A score 0.1 in all sentences, and one that is higher by two parts in ten million.
    one, other = (
        Statistics(
            metric="comet",
            name="COMET",
            signature="",
            higher_is_better=True,
            value=100 * value,
            per_sentence=np.tile([value, 1.0], (30, 1)),
        )
        for value in (0.1, 0.10000002)[::sign]
    )
    found = compare(one, other, test=test, resamples=99, seed=SEED)
    assert found.value == pytest.approx(sign * 2e-6, rel=1e-3)
    assert (found.p_value < 0.05) == (abs(found.value) >= found.smallest)
    assert found.p_value < 1.0


def test_nothing_exceeds_a_difference_that_each_sentence_shows() -> None:
    # Any change of sides lessens the difference: 1 of 999 resamples and the one that is added.
    better, worse = count_edits([1] * 40, 5), count_edits([2] * 40, 5)
    found = compare(worse, better, test="randomization", resamples=999, seed=SEED)
    assert found.value == -20.0
    assert found.p_value == 1 / 1000
    # Each resample shows it as well.
    assert (found.interval.low, found.interval.high) == (-20.0, -20.0)


@pytest.mark.parametrize(
    # Of 2^n changes of sides of n labels that differ, those whose difference is at least as large.
    ("better", "worse", "exact"),
    [(1, 0, 1.0), (2, 0, 0.5), (4, 0, 0.125), (12, 4, 0.0768)],
)
def test_ties_count_in_a_randomization_of_labels(better: int, worse: int, exact: float) -> None:
    def count(right: int, of_others: int) -> Statistics:
        hits = [1.0] * right + [0.0] * of_others + [1.0] * (200 - right - of_others)
        sums = np.stack([np.array(hits), np.ones(200)], axis=1)
        return Statistics.of("accuracy", "accuracy", "", sums)

    one, other = count(0, better + worse), count(better, worse)
    one.per_sentence[better : better + worse, 0] = 1.0
    one = Statistics.of("accuracy", "accuracy", "", one.per_sentence)
    found = compare(one, other, test="randomization", resamples=9_999, seed=SEED)
    assert found.p_value == pytest.approx(exact, abs=0.015)


def test_interval_by_hand() -> None:
    # Of two sentences without and with an edit a resample is 0, 50 or 100: 1/4, 1/2 and 1/4.
    one = count_edits([0, 1], 1)
    [wide] = bootstrap_intervals({"one": [one]}, resamples=1000, seed=SEED)["one"]
    assert (wide.low, wide.high) == (0.0, 100.0)
    [narrow] = bootstrap_intervals({"one": [one]}, resamples=1000, seed=SEED, confidence=0.4)["one"]
    assert (narrow.low, narrow.high) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("test", "shift", "deviations"),
    [
        # A normal variable exceeds 1.96 deviations on either side once in 20 times.
        ("randomization", 0, 1.96),
        # Koehn's test as sacreBLEU has it: the d for which a normal variable x around d with
        # deviation 1 has P(|x| - E|x| > d) = 0.05. Far from 0 that would be 1.645.
        ("bootstrap", 0, 1.598),
        ("bootstrap", 2, 1.598),
        ("bootstrap", -2, 1.598),
    ],
)
def test_smallest_and_interval_where_the_variance_is_known(
    test: TestKind, shift: int, deviations: float
) -> None:
    # Differences of one edit up or down among 10 words: 10 points, of which the mean over 400
    # sentences has a deviation of 10 / sqrt(400) = 0.5 points.
    baseline = count_edits([10] * 400, 10)
    system = count_edits([10 + shift + sign for sign in (-1, 1) * 200], 10)
    found = compare(baseline, system, test=test, resamples=20_000, seed=SEED)
    assert found.value == 10 * shift
    assert found.smallest == pytest.approx(deviations * 0.5, abs=0.03)
    assert found.interval.low == pytest.approx(10 * shift - 1.96 * 0.5, abs=0.03)
    assert found.interval.high == pytest.approx(10 * shift + 1.96 * 0.5, abs=0.03)


@settings(max_examples=50)
@given(data=st.data(), test=st.sampled_from(["bootstrap", "randomization"]))
def test_differences_from_the_smallest_on_are_the_significant_ones(
    data: st.DataObject, test: TestKind
) -> None:
    numbers = st.lists(st.integers(0, 9), min_size=15, max_size=15)
    baseline, system = data.draw(numbers), data.draw(numbers)
    found = compare(
        # Lengths without a common measure, so that no resample ties with the whole.
        count_edits(baseline, 7),
        count_edits([number + 1 for number in system], 11),
        test=test,
        resamples=data.draw(st.integers(20, 120)),
        seed=SEED,
    )
    assert (found.p_value < 0.05) == (abs(found.value) >= found.smallest)


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_draws_do_not_depend_on_how_many_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch, test: TestKind
) -> None:
    systems, references = make_systems(23)
    measured = measure_systems(systems, references, Evaluation())
    whole = find_differences(measured, "good", test=test, resamples=150, seed=SEED)
    monkeypatch.setattr(significance_module, "_MAX_WEIGHTS", 32 * 23)
    assert find_differences(measured, "good", test=test, resamples=150, seed=SEED) == whole
    other = find_differences(measured, "good", test=test, resamples=150, seed=SEED + 1)
    assert other != whole


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_two_systems_alone_compare_as_among_others(test: TestKind) -> None:
    systems, references = make_systems(23)
    measured = measure_systems(systems, references, Evaluation())
    among = find_differences(measured, "fair", test=test, resamples=100, seed=SEED)
    assert list(among) == ["good", "poor"]
    two = {name: measured[name] for name in ("fair", "poor")}
    alone = find_differences(two, "fair", test=test, resamples=100, seed=SEED)["poor"]
    assert among["poor"] == alone
    values = [
        new.value - old.value for new, old in zip(measured["poor"], measured["fair"], strict=True)
    ]
    assert [each.value for each in alone] == values


# The publishers of sacreBLEU hold it to these, within 0.01 (test/test_significance.py there):
# Moses' bootstrap of 2,000 resamples, the mean of three runs; multeval's randomisation of 10,000.
PUBLISHED = {
    "C-3MA": (0.00000, 0.0001),
    "FBK": (0.01267, 0.0218),
    "LMU-nmt-reranked": (0.04383, 0.09029),
    "online-B": (0.38100, 0.94111),
    "xmu": (0.25483, 0.71073),
}


@pytest.mark.slow
def test_agrees_with_moses_and_multeval_on_wmt17() -> None:
    systems = {name: read_system(name) for name in ("LIUM-NMT", *PUBLISHED)}
    options = Evaluation(metrics=("bleu",), tokenize="none")
    measured = measure_systems(systems, [read_reference()], options)
    moses = find_differences(measured, "LIUM-NMT", test="bootstrap", resamples=2_000, seed=SEED)
    multeval = find_differences(
        measured, "LIUM-NMT", test="randomization", resamples=10_000, seed=SEED
    )
    for name, expected in PUBLISHED.items():
        found = (moses[name][0].p_value, multeval[name][0].p_value)
        assert found == pytest.approx(expected, abs=0.01)


def test_unequal_test_sets_are_both_named() -> None:
    both = {"long": [count_edits([1, 2, 3], 5)], "short": [count_edits([1, 2], 5)]}
    with pytest.raises(MtkitError, match="long has 3 sentences, but short has 2"):
        find_differences(both, "long", test="bootstrap", resamples=100, seed=SEED)


def test_one_sentence_cannot_be_resampled() -> None:
    one = count_edits([1], 5)
    with pytest.raises(MtkitError, match="one sentence"):
        compare(one, one, test="bootstrap", resamples=100, seed=SEED)
    with pytest.raises(MtkitError, match="one sentence"):
        bootstrap_intervals({"one": [one]}, resamples=100, seed=SEED)


def test_too_few_resamples_for_any_finding() -> None:
    one = count_edits([1, 2], 5)
    with pytest.raises(MtkitError, match="19 resamples"):
        compare(one, one, test="randomization", resamples=19, seed=SEED)
