"""sacreBLEU's own scores are the oracle, of the test set, of any sample of it, of each sentence."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import sentence_bleu, sentence_chrf, sentence_ter
from sacrebleu.metrics import BLEU, CHRF, TER

import mtkit.evaluation.statistics as statistics_module
import mtkit.executor as executor_module
from mtkit.errors import MtkitError
from mtkit.evaluation.scores import score_corpus
from mtkit.evaluation.statistics import Statistics, measure_systems
from mtkit.recipe.evaluation import Evaluation, Metric

HYPOTHESES = [
    "The cat sat on the mat .",
    "a  Tiny test\u00a0",
    "",
    "Das ist gut!",
    "nothing in common",
    "one",
    "The black cat sat on the red mat, and slept.",
    "text without a reference",
]
REFERENCES = [
    "The cat is sitting on the mat.",
    "a tiny test",
    "Nothing",
    "Das ist sehr gut!",
    "Ganz anders",
    "one",
    "On the red mat the black cat sat, and it slept.",
    "",
]
OTHER_REFERENCES = [
    "A cat sat on the mat.",
    "One small test",
    "",
    "Das ist gut!",
    "etwas",
    "One two three",
    "A black cat slept on the red mat.",
    "",
]
METRICS: tuple[Metric, ...] = ("bleu", "chrf", "chrf++", "ter")
SETTINGS: list[dict[str, Any]] = [
    {"smooth": "exp"},
    {"smooth": "floor"},
    {"smooth": "add-k"},
    {"smooth": "none"},
    {"lowercase": True},
    {"tokenize": "char"},
]


def open_sacrebleu(metric: Metric, settings: dict[str, Any]) -> Any:
    lowercase = settings.get("lowercase", False)
    match metric:
        case "bleu":
            return BLEU(
                tokenize=settings.get("tokenize", "13a"),
                smooth_method=settings.get("smooth", "exp"),
                lowercase=lowercase,
            )
        case "chrf":
            return CHRF(lowercase=lowercase)
        case "chrf++":
            return CHRF(word_order=2, lowercase=lowercase)
        case "ter":
            return TER()


@pytest.mark.parametrize("settings", SETTINGS[:4])
def test_precisions_and_lengths_are_sacrebleus(settings: dict[str, Any]) -> None:
    evaluation = Evaluation(metrics=("bleu", "chrf"), **settings)
    found = measure_systems({"a": HYPOTHESES}, [REFERENCES], evaluation)["a"]
    theirs = open_sacrebleu("bleu", settings).corpus_score(HYPOTHESES, [REFERENCES])
    # Such as "BLEU = 30.44 63.0/33.3/21.4/18.2 (BP = 1.000 ratio = ...)".
    assert theirs.format().endswith(f" {found[0].as_score().verbose_score}")
    assert found[0].as_score().verbose_score.count("/") == 3
    assert found[1].as_score().verbose_score == ""


def measure(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metric: Metric,
    settings: Evaluation,
) -> Statistics:
    """Returns one metric's statistics of one system."""
    alone = settings.model_copy(update={"metrics": (metric,)})
    [found] = measure_systems({"one": hypotheses}, references, alone)["one"]
    return found


def strip(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHER_REFERENCES]])
@pytest.mark.parametrize("metric", METRICS)
def test_value_name_and_signature_are_sacrebleus(
    metric: Metric, references: list[list[str]], settings: dict[str, Any]
) -> None:
    scorer = open_sacrebleu(metric, settings)
    expected = scorer.corpus_score(strip(HYPOTHESES), [strip(lines) for lines in references])
    found = measure(HYPOTHESES, references, metric, Evaluation(**settings))
    assert (found.name, found.value) == (expected.name, expected.score)
    assert found.signature == scorer.get_signature().format()
    assert found.score(found.per_sentence.sum(0)) == expected.score
    assert found.higher_is_better is (metric != "ter")


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("metric", METRICS)
@hypothesis.settings(max_examples=10)
@given(samples=st.lists(st.lists(st.sampled_from(range(8)), min_size=1, max_size=8), min_size=1))
def test_sums_of_any_sentences_score_as_these_sentences_do(
    metric: Metric, settings: dict[str, Any], samples: list[list[int]]
) -> None:
    found = measure(HYPOTHESES, [REFERENCES, OTHER_REFERENCES], metric, Evaluation(**settings))
    scorer = open_sacrebleu(metric, settings)
    expected = [
        scorer.corpus_score(
            [HYPOTHESES[i].rstrip() for i in sample],
            [[REFERENCES[i] for i in sample], [OTHER_REFERENCES[i] for i in sample]],
        ).score
        for sample in samples
    ]
    sums = np.array([found.per_sentence[sample].sum(0) for sample in samples])
    assert found.score(sums).tolist() == expected


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHER_REFERENCES]])
def test_sentence_scores_are_those_of_sacrebleus_functions(
    references: list[list[str]], settings: dict[str, Any]
) -> None:
    smooth, lowercase = settings.get("smooth", "exp"), settings.get("lowercase", False)
    tokenize = settings.get("tokenize", "13a")

    def cased(text: str) -> str:
        # sacreBLEU's function for chrF has no option for it.
        return text.lower() if lowercase else text

    rows = list(zip(strip(HYPOTHESES), zip(*references, strict=True), strict=True))
    expected = {
        "bleu": [
            sentence_bleu(
                text, list(each), smooth_method=smooth, lowercase=lowercase, tokenize=tokenize
            )
            for text, each in rows
        ],
        "chrf": [sentence_chrf(cased(text), [*map(cased, each)]) for text, each in rows],
        "chrf++": [
            sentence_chrf(cased(text), [*map(cased, each)], word_order=2) for text, each in rows
        ],
        "ter": [sentence_ter(text, list(each)) for text, each in rows],
    }
    for metric in METRICS:
        found = measure(HYPOTHESES, references, metric, Evaluation(**settings))
        assert found.sentence_scores().tolist() == [score.score for score in expected[metric]]


def test_three_references_whose_average_length_is_no_number_of_bits() -> None:
    # Of lengths 1, 1 and 2, and 2, 2 and 3: 4/3 and 7/3 words, of which one edit is 3/11.
    references = [["a", "b c"], ["d", "e f"], ["g h", "i j k"]]
    found = measure(["a", "b x"], references, "ter", Evaluation())
    assert found.value == pytest.approx(100 * 3 / 11, rel=1e-15)
    assert found.score(found.per_sentence.sum(0)) == pytest.approx(found.value, rel=1e-15)


@pytest.mark.parametrize(
    ("metric", "hypothesis", "reference", "expected"),
    [
        # Papineni et al. 2002: (4/5 * 3/4 * 2/3 * 1/2) ** (1/4) = 0.2 ** (1/4).
        ("bleu", "a b c d x", "a b c d e", 66.8740304976422),
        # Half as long as the reference: e ** (1 - 8/4) = 36.787944...
        ("bleu", "a b c d", "a b c d e f g h", 36.7879441171442),
        # Popovic 2015: precision and recall 1/2 of single characters, 0 of pairs; 1/4 on average.
        ("chrf", "ac", "ab", 25.0),
        # Precision 1, recall 1/2: 5 * 1 * 1/2 / (4 * 1 + 1/2). No pairs in the hypothesis.
        ("chrf", "a", "ab", 500 / 9),
        # 2017: a word without a match beside these: one order more, a third of 1/2.
        ("chrf++", "ac", "ab", 100 / 6),
        # Snover et al. 2006: one word of four, one shift of three.
        ("ter", "a b c x", "a b c d", 25.0),
        ("ter", "b c a", "a b c", 100 / 3),
    ],
)
def test_by_hand(metric: Metric, hypothesis: str, reference: str, expected: float) -> None:
    settings = Evaluation(tokenize="none", smooth="none")
    found = measure([hypothesis], [[reference]], metric, settings)
    assert found.value == pytest.approx(expected)
    assert found.score(found.per_sentence.sum(0)) == found.value


def test_single_precision_stays_single_precision() -> None:
    # sacreBLEU's bootstrap computes so, but for the logarithms of BLEU.
    for metric in METRICS:
        found = measure(HYPOTHESES, [REFERENCES], metric, Evaluation())
        scores = found.score(found.per_sentence.astype(np.float32))
        assert scores.dtype == (np.float64 if metric == "bleu" else np.float32)
        np.testing.assert_allclose(scores, found.score(found.per_sentence), rtol=1e-6)


SYSTEMS = {"good": REFERENCES, "poor": HYPOTHESES}


def assert_same(found: Statistics, expected: Statistics) -> None:
    assert found.per_sentence.tolist() == expected.per_sentence.tolist()
    assert vars(found) | {"per_sentence": None} == vars(expected) | {"per_sentence": None}


def test_several_systems_are_measured_as_one_by_one() -> None:
    settings = Evaluation(metrics=("ter", "bleu", "chrf++"), smooth="floor")
    found = measure_systems(SYSTEMS, [OTHER_REFERENCES], settings)
    assert list(found) == list(SYSTEMS)
    for name, hypotheses in SYSTEMS.items():
        for each, metric in zip(found[name], settings.metrics, strict=True):
            assert_same(each, measure(hypotheses, [OTHER_REFERENCES], metric, settings))
        scores = score_corpus(hypotheses, [OTHER_REFERENCES], settings)
        assert [each.value for each in found[name]] == [score.value for score in scores]


@pytest.mark.slow
def test_several_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Evaluation(metrics=METRICS)
    alone = measure_systems(SYSTEMS, [REFERENCES], settings)
    monkeypatch.setattr(executor_module, "count_cpus", lambda: 2)
    monkeypatch.setattr(executor_module, "_MIN_SECONDS_PER_WORKER", 0.001)
    monkeypatch.setattr(statistics_module, "_SECONDS_PER_BLOCK", 0.01)
    shared = measure_systems(SYSTEMS, [REFERENCES], settings)
    for name, expected in alone.items():
        for found, each in zip(shared[name], expected, strict=True):
            assert_same(found, each)


# A script without `if __name__ == "__main__":`, which no worker runs.
MANY = """
import mtkit.evaluation.statistics as statistics
import mtkit.executor as executor
from mtkit.recipe.evaluation import Evaluation

executor.count_cpus = lambda: 2
line = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 2
system = [line + line[:number % 50] for number in range(40_000)]
reference = [line[number % 20:] for number in range(40_000)]
statistics.measure_systems({"one": system}, [reference], Evaluation(metrics=("ter",)))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to interrupt")
def test_an_interrupt_ends_all_processes_with_one_traceback(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MANY, "utf-8")
    # A terminal's Ctrl-C goes to the whole group.
    process = subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        family = psutil.Process(process.pid)
        while process.poll() is None and len(family.children(recursive=True)) < 2:
            time.sleep(0.02)
        children = family.children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.endswith("KeyboardInterrupt\n")
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


def test_unequal_counts_are_a_fault() -> None:
    with pytest.raises(MtkitError, match=r"^1 hypotheses, but 2 references"):
        measure_systems({"long": ["a", "b"], "short": ["a"]}, [["a", "b"]], Evaluation())


def test_nothing_to_measure_is_a_fault() -> None:
    with pytest.raises(MtkitError, match="no systems"):
        measure_systems({}, [["a"]], Evaluation())
    with pytest.raises(MtkitError, match="no sentences"):
        measure_systems({"one": []}, [[]], Evaluation())
    with pytest.raises(MtkitError, match="no references"):
        measure_systems({"one": ["a"]}, [], Evaluation())


@pytest.mark.skipif(find_spec("mecab_ko") is not None, reason="MeCab for Korean is installed")
def test_missing_tokeniser_says_what_to_install() -> None:
    with pytest.raises(MtkitError, match="ko-mecab") as fault:
        measure_systems({"one": ["a"]}, [["a"]], Evaluation(tokenize="ko-mecab"))
    assert fault.value.hint == "in the folder that holds mtkit's code: pip install '.[ko]'"
