"""Scores of trees, against EVALB: the counts beside each case are those that it printed.

The program is that of January 2006 with COLLINS.prm, as the sources are handed on with the Berkeley
neural parser (github.com/nikitakit/self-attentive-parser, folder EVALB).
"""

import pytest
from hypothesis import given

from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import ReferenceText, evaluate
from mtkit.evaluation.parseval import count_brackets, measure_trees
from mtkit.recipe.evaluation import Evaluation
from mtkit.text.trees.brackets import Tree, write_tree

from ..text.trees.random_trees import trees

# Name, reference, hypothesis; EVALB's "Matched bracket", "Bracket test" and "Bracket gold", or None
# where its status isn't 0.
CASES = [
    (
        "same",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        (3, 3, 3),
    ),
    (
        "label",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (X (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        (2, 3, 3),
    ),
    (
        "tags don't count",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (XX Mary)) (VP (XX sleeps)) (. .)))",
        (3, 3, 3),
    ),
    (
        "punctuation inside",
        "(TOP (S (NP (NP (NNP Mary)) (, ,) (NP (NNP Ann))) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NP (NNP Mary)) (NP (, ,) (NNP Ann))) (VP (VBZ sleeps) (. .))))",
        (5, 5, 5),
    ),
    (
        "quotes and colons",
        "(TOP (S (`` ``) (NP (PRP I)) (VP (VBP go)) ('' '') (: :)))",
        "(TOP (S (`` ``) (NP (PRP I)) (VP (VBP go) ('' '')) (: :)))",
        (3, 3, 3),
    ),
    (
        "ADVP and PRT",
        "(TOP (S (VP (VB Stand) (PRT (RP up)))))",
        "(TOP (S (VP (VB Stand) (ADVP (RB up)))))",
        (3, 3, 3),
    ),
    (
        "crossing",
        "(TOP (S (NP (DT the) (NN man)) (VP (VBD saw) "
        "(NP (NP (PRP her)) (PP (IN with) (NP (NN glasses)))))))",
        "(TOP (S (NP (DT the)) (VP (NN man) "
        "(VP (VBD saw) (NP (PRP her)))) (PP (IN with) (NP (NN glasses)))))",
        (4, 7, 7),
    ),
    (
        "twice the same",
        "(TOP (NP (NP (NP (DT the) (NN man)))))",
        "(TOP (NP (NP (DT the) (NN man))))",
        (2, 2, 3),
    ),
    (
        "three for two",
        "(TOP (NP (NP (DT the) (NN man))))",
        "(TOP (NP (NP (NP (DT the) (NN man)))))",
        (2, 3, 2),
    ),
    (
        "function tags",
        "(TOP (S (NP-SBJ=2 (NNP Mary)) (VP (VBZ sleeps) (ADVP-TMP (RB now)))))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps) (ADVP (RB now)))))",
        (4, 4, 4),
    ),
    (
        "traces",
        "(TOP (S (NP (NNP Mary)) (VP (VBD said) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .)))",
        "(TOP (S (NP (NNP Mary)) (VP (VBD said)) (. .)))",
        (3, 3, 3),
    ),
    (
        "empty constituent",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps))))",
        "(TOP (S (NP (NNP Mary)) (PP) (VP (VBZ sleeps))))",
        (3, 3, 3),
    ),
    (
        "punctuation with another tag",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (NN .)))",
        None,
    ),
    (
        "two tags exchanged",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NNP Mary)) (VP (. sleeps)) (NN .)))",
        None,
    ),
    (
        "a word is missing",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NNP Mary)) (. .)))",
        None,
    ),
    (
        "another word",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleep)) (. .)))",
        None,
    ),
    ("punctuation alone", "(TOP (NP (. .)))", "(TOP (NP (. .)))", None),
    (
        "a bracket is missing",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps) (. .)))",
        None,
    ),
    (
        "a constituent named as punctuation",
        "(TOP (S (: (NP (NNP Mary))) (VP (VBZ sleeps))))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps))))",
        (3, 3, 3),
    ),
    ("words alone", "(TOP (NN Mary))", "(TOP (NN Mary))", (0, 0, 0)),
    (
        "no bracket around it",
        "(S (NP (NNP Mary)) (VP (VBZ sleeps)))",
        "(TOP (S (NP (NNP Mary)) (VP (VBZ sleeps))))",
        (3, 3, 3),
    ),
]
LONG = (
    "(TOP (S (NP " + " ".join(["(NN w)"] * 39) + ") (VP (VBZ sleeps)) (. .)))",
    "(TOP (S (NP " + " ".join(["(NN w)"] * 38) + ") (VP (NN w) (VBZ sleeps)) (. .)))",
)
PARSEVAL = Evaluation(metrics=("parseval",))


@pytest.mark.parametrize(
    ("reference", "hypothesis", "counts"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_counts_are_evalbs(
    reference: str, hypothesis: str, counts: tuple[int, int, int] | None
) -> None:
    [found] = count_brackets([hypothesis], [reference]).tolist()
    assert bool(found[4]) == (counts is not None)
    assert tuple(found[:3]) == (counts or (0, 0, 0))
    assert found[3] == (counts is not None and len(set(counts)) == 1)


def test_the_summary_is_evalbs() -> None:
    hypotheses = [*(case[2] for case in CASES), LONG[1]]
    references = [*(case[1] for case in CASES), LONG[0]]
    found = {each.name: each for each in measure_trees(hypotheses, references)}
    # "-- All --": 22 sentences, 5 errors, 1 skipped.
    assert round(found["labelled recall"].value, 2) == 86.27
    assert round(found["labelled precision"].value, 2) == 86.27
    assert round(found["labelled F1"].value, 2) == 86.27
    assert round(found["exact match"].value, 2) == 68.75
    assert "|scored:16|of:22|" in found["labelled F1"].signature
    # "-- len<=40 --": 21 sentences.
    assert round(found["labelled recall to 40 words"].value, 2) == 89.58
    assert round(found["labelled precision to 40 words"].value, 2) == 89.58
    assert round(found["exact match to 40 words"].value, 2) == 73.33
    assert "|scored:15|of:21|" in found["exact match to 40 words"].signature


@pytest.mark.parametrize("root", ["ROOT", "TOP", ""])
def test_the_bracket_around_a_tree_isnt_counted(root: str) -> None:
    # EVALB's COLLINS.prm drops TOP alone; treebanks have the others, too.
    reference = f"({root} (S (NP (NNP Mary)) (VP (VBZ sleeps)) (. .)))"
    [found] = count_brackets(["(S (NP (XX Mary)) (VP (XX sleeps)) (. .))"], [reference])
    assert found.tolist() == [3, 3, 3, 1, 1, 1]


@given(trees)
def test_a_tree_matches_itself(tree: Tree) -> None:
    text = write_tree(tree)
    right, found, wanted, is_exact, is_scored, _ = count_brackets([text], [text])[0]
    assert right == found == wanted
    assert is_exact == is_scored


def test_intervals_differences_and_what_isnt_scored() -> None:
    reference, wrong = "(S (NP (NN a)) (VP (VB b)))", "(S (NP (NN a) (VB b)))"
    references = [reference] * 200
    systems = {"base": [wrong] * 100 + [reference] * 100, "better": [*references[:199], "(S"]}
    evaluated = evaluate(systems, ReferenceText("test", [references]), PARSEVAL)
    base, better = evaluated.systems
    names = [score.name for score in base.scores]
    assert names[:4] == ["labelled precision", "labelled recall", "labelled F1", "exact match"]
    # Of 100 sentences 1 of 2 and of 3 brackets, of 100 all 3: 400 of 500 and of 600.
    assert [score.value for score in base.scores[:4]] == pytest.approx(
        [80.0, 400 / 6, 800 / 11, 50.0]
    )
    assert better.scores[2].value == 100.0
    for score in base.scores:
        assert score.interval.low < score.value < score.interval.high
    assert all(score.difference.p_value < 0.01 for score in better.scores)
    assert not base.remarks
    assert better.remarks[0].startswith("1 of 200 sentences aren't scored, as by EVALB")


def test_faults() -> None:
    with pytest.raises(MtkitError, match="reference 2 isn't a tree: the tree isn't closed"):
        count_brackets(["", ""], ["(S (NN a))", "(S (NN a)"])
    with pytest.raises(MtkitError, match="2 sets of references, but trees are scored against one"):
        evaluate({"a": ["(S)"]}, ReferenceText("t", [["(S)"], ["(S)"]]), PARSEVAL)
