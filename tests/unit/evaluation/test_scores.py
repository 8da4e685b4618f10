"""sacreBLEU's own command line is the oracle: the same files, the same digits."""

import json
import logging
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mtkit.errors import MtkitError
from mtkit.evaluation.scores import score_corpus
from mtkit.recipe.evaluation import Evaluation, Metric

from ... import warm
from .real_text import read_flores, read_reference, read_system

HYPOTHESES = ["The cat sat on the mat .", "a  Tiny test\u00a0", "", "Das ist gut!"]
REFERENCES = ["The cat is sitting on the mat.", "a tiny test", "Nothing", "Das ist sehr gut!"]
OTHER_REFERENCES = ["A cat sat on the mat.", "One small test", "Nil", "Das ist gut!"]


def run_sacrebleu(
    folder: Path,
    texts: dict[str, list[str]],
    *options: str,
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "ter"),
) -> list[dict[str, Any]]:
    """Returns what the `sacrebleu` command says of hypotheses and reference sets."""
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    references = [name for name in texts if name != "hypotheses"]
    program = "from sacrebleu.sacrebleu import main; main()"
    command = [warm.python(), "-c", program, *references, "-i", "hypotheses"]
    # Its JSON rounds to the width that is asked for.
    command += ["-m", *metrics, "-w", "12", "-f", "json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    scores = json.loads(done.stdout)
    # One metric makes an object, several make a list.
    return scores if isinstance(scores, list) else [scores]


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, []),
        ({"tokenize": "none", "smooth": "none"}, ["-tok", "none", "-s", "none"]),
        ({"tokenize": "intl", "smooth": "floor"}, ["-tok", "intl", "-s", "floor"]),
        ({"tokenize": "char", "smooth": "add-k"}, ["-tok", "char", "-s", "add-k"]),
        ({"tokenize": "zh"}, ["-tok", "zh"]),
        ({"lowercase": True}, ["-lc", "--chrf-lowercase"]),
    ],
)
def test_agrees_with_sacrebleus_command(
    tmp_path: Path, settings: dict[str, Any], options: list[str]
) -> None:
    texts = {"hypotheses": HYPOTHESES, "first": REFERENCES, "second": OTHER_REFERENCES}
    expected = run_sacrebleu(tmp_path, texts, *options)
    found = score_corpus(HYPOTHESES, [REFERENCES, OTHER_REFERENCES], Evaluation(**settings))
    assert [(score.name, score.signature) for score in found] == [
        (score["name"], score["signature"]) for score in expected
    ]
    assert [round(score.value, 12) for score in found] == [score["score"] for score in expected]


def test_agrees_with_sacrebleus_command_on_word_order_two(tmp_path: Path) -> None:
    texts = {"hypotheses": HYPOTHESES, "first": REFERENCES, "second": OTHER_REFERENCES}
    [expected] = run_sacrebleu(tmp_path, texts, "--chrf-word-order", "2", metrics=("chrf",))
    references = [REFERENCES, OTHER_REFERENCES]
    [found] = score_corpus(HYPOTHESES, references, Evaluation(metrics=("chrf++",)))
    assert (found.name, found.signature) == (expected["name"], expected["signature"])
    assert found.name == "chrF2++"
    assert round(found.value, 12) == expected["score"]


# One system that was tuned on BLEU, one rule-based. sacreBLEU's TER takes milliseconds a sentence.
@pytest.mark.parametrize("system", ["uedin-nmt", "PROMT-Rule-based"])
@pytest.mark.parametrize(("metrics", "num_lines"), [(("bleu",), 3_004), (("chrf", "ter"), 200)])
def test_agrees_with_sacrebleus_command_on_wmt17(
    tmp_path: Path, system: str, metrics: tuple[Metric, ...], num_lines: int
) -> None:
    texts = {
        "hypotheses": read_system(system)[:num_lines],
        "reference": read_reference()[:num_lines],
    }
    expected = run_sacrebleu(tmp_path, texts, metrics=metrics)
    found = score_corpus(texts["hypotheses"], [texts["reference"]], Evaluation(metrics=metrics))
    assert [(score.name, round(score.value, 12), score.signature) for score in found] == [
        (score["name"], score["score"], score["signature"]) for score in expected
    ]


@pytest.mark.parametrize(("language", "tokenizer"), [("zh", "zh"), ("ja", "ja-mecab")])
def test_agrees_with_sacrebleus_command_on_text_without_spaces(
    tmp_path: Path, language: str, tokenizer: str
) -> None:
    references = read_flores(language)[:400]
    # Every seventh character is gone.
    hypotheses = ["".join(c for i, c in enumerate(line) if i % 7) for line in references]
    texts = {"hypotheses": hypotheses, "reference": references}
    metrics: tuple[Metric, ...] = ("bleu", "chrf")
    expected = run_sacrebleu(tmp_path, texts, "-tok", tokenizer, metrics=metrics)
    found = score_corpus(
        hypotheses, [references], Evaluation(metrics=metrics), target_language=language
    )
    assert [(score.name, round(score.value, 12), score.signature) for score in found] == [
        (score["name"], score["score"], score["signature"]) for score in expected
    ]


def test_scores_only_the_metrics_asked_for_in_their_order() -> None:
    found = score_corpus(["a b"], [["a b"]], Evaluation(metrics=("ter", "chrf")))
    assert [(score.name, score.higher_is_better) for score in found] == [
        ("TER", False),
        ("chrF2", True),
    ]
    # By definition: no edits, and every character n-gram in common.
    assert [score.value for score in found] == [0.0, 100.0]


def test_bleu_by_hand() -> None:
    # Papineni et al. 2002: 4 of 5 unigrams, 3 of 4 bigrams, 2 of 3 trigrams, 1 of 2 four-grams, and
    # no brevity penalty: (4/5 * 3/4 * 2/3 * 1/2) ** (1/4) = 0.2 ** 0.25 = 0.66874.
    settings = Evaluation(metrics=("bleu",), tokenize="none", smooth="none")
    [score] = score_corpus(["a b c d x"], [["a b c d e"]], settings)
    assert score.value == pytest.approx(66.8740304976422)


def test_text_that_looks_tokenised_draws_no_warning(
    logged: list[logging.LogRecord], capfd: pytest.CaptureFixture[str]
) -> None:
    logging.root.setLevel(logging.DEBUG)
    score_corpus(["das ist gut ."] * 120, [["das ist gut ."] * 120], Evaluation())
    assert logged == []
    assert capfd.readouterr() == ("", "")


def test_unequal_counts_are_both_named() -> None:
    with pytest.raises(MtkitError, match=r"3 hypotheses, but 2 references in reference set 2"):
        score_corpus(["a"] * 3, [["a"] * 3, ["a"] * 2], Evaluation())


def test_nothing_to_score_is_a_fault() -> None:
    with pytest.raises(MtkitError, match="no sentences to score"):
        score_corpus([], [[]], Evaluation())
    with pytest.raises(MtkitError, match="no references"):
        score_corpus(["a"], [], Evaluation())


@pytest.mark.skipif(find_spec("mecab_ko") is not None, reason="MeCab for Korean is installed")
def test_missing_tokeniser_says_what_to_install() -> None:
    with pytest.raises(MtkitError, match="ko-mecab") as fault:
        score_corpus(["a"], [["a"]], Evaluation(tokenize="ko-mecab"))
    assert fault.value.hint == "in the folder that holds mtkit's code: pip install '.[ko]'"
