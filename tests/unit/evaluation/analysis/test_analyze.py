import json
from collections.abc import Sequence
from dataclasses import asdict

from sacrebleu.metrics.chrf import CHRF

from mtkit.evaluation.analysis.analyze import Analysis, analyze
from mtkit.evaluation.analysis.comparison import SentenceScores

REFERENCES = ["Der Hund schläft.", "Es kostet 99 Euro.", "Gut."]
SOURCES = ["The dog sleeps.", "It costs 99 euros.", "Good."]
OUTPUTS = {
    "old": ["Der Hund schlief.", "Es kostet 90 Euro.", "Gut."],
    "new": ["Der Hund schläft.", "Es kostet 99 Euro.", "Good."],
    "worst": ["", "", ""],
}


def score(system: str, indices: Sequence[int]) -> dict[str, float]:
    result = CHRF().corpus_score(
        [OUTPUTS[system][index] for index in indices],
        [[REFERENCES[index] for index in indices]],
    )
    return {"chrF2": result.score}


def score_sentences() -> SentenceScores:
    values = {name: [score(name, [index])["chrF2"] for index in range(3)] for name in OUTPUTS}
    return SentenceScores("chrF2", True, values)


def test_everything_is_found_out() -> None:
    analysis = analyze(
        OUTPUTS,
        REFERENCES,
        score,
        sentence_scores=score_sentences(),
        sources=SOURCES,
        origins=["talk", "shop", "talk"],
    )
    assert [grouping.name for grouping in analysis.groupings] == [
        "Reference length",
        "Rare words",
        "Origin",
        "Risk flags",
    ]
    shop = analysis.groupings[2].buckets[1]
    assert (shop.name, shop.num_sentences) == ("shop", 1)
    # Right to the letter, and nothing at all.
    assert (shop.scores["new"]["chrF2"], shop.scores["worst"]["chrF2"]) == (100.0, 0.0)
    assert analysis.flag_counts["worst"]["empty"] == 3
    assert analysis.flag_counts["old"]["numbers"] == 1
    assert analysis.flag_counts["new"]["untranslated"] == 1


def test_the_baseline_is_compared_with_the_best_of_the_others() -> None:
    [comparison] = analyze(
        OUTPUTS, REFERENCES, score, sentence_scores=score_sentences()
    ).comparisons
    assert (comparison.system, comparison.baseline) == ("new", "old")
    assert (comparison.num_won, comparison.num_lost) == (2, 1)
    assert comparison.won[0].source is None


def test_one_system_is_compared_with_none() -> None:
    outputs = {"old": OUTPUTS["old"]}
    analysis = analyze(outputs, REFERENCES, score, sentence_scores=score_sentences())
    assert analysis.comparisons == ()
    assert analysis.flag_counts.keys() == {"old"}


def test_an_analysis_is_json() -> None:
    analysis = analyze(
        OUTPUTS, REFERENCES, score, sentence_scores=score_sentences(), sources=SOURCES
    )
    read_back = json.loads(json.dumps(asdict(analysis)))
    assert read_back["comparisons"][0]["won"][0]["source"] == "It costs 99 euros."
    assert asdict(Analysis()) == {"groupings": (), "flag_counts": {}, "comparisons": ()}
