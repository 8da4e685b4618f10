"""Penn Treebank brackets: layouts, what they hold, and what is wrong with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import MtkitError
from mtkit.text.trees.brackets import (
    Leaf,
    parse_tree,
    read_trees,
    simplify,
    split_tree_words,
    write_tree,
)

from .random_trees import trees

# The layout of the Penn Treebank's own files: an empty label, many lines, traces, indices.
PENN = """
( (S
    (NP-SBJ-1 (DT The) (NN parser) (PRN (-LRB- -LRB-) (NP (NN ours)) (-RRB- -RRB-)))
    (VP (VBZ wants)
      (S
        (NP-SBJ (-NONE- *-1))
        (VP (TO to)
          (VP (VB read) (NP=2 (DT this)) (SBAR (-NONE- 0) (S (-NONE- *T*-3)))
            (ADVP-TMP (RB now))))))
    (. .)))

( (FRAG (NP (NN Nothing)))) (TOP (INTJ (UH Oh)))
"""


def test_the_treebanks_own_layout() -> None:
    first, second, third = read_trees(PENN.splitlines(), "wsj.mrg")
    assert (
        " ".join(first.words) == "The parser -LRB- ours -RRB- wants *-1 to read this 0 *T*-3 now ."
    )
    assert write_tree(simplify(first)) == (
        "(TOP (S (NP (DT The) (NN parser) (PRN (-LRB- -LRB-) (NP (NN ours)) (-RRB- -RRB-))) "
        "(VP (VBZ wants) (S (VP (TO to) (VP (VB read) (NP (DT this)) (ADVP (RB now)))))) (. .)))"
    )
    assert write_tree(simplify(second), root=None) == "(FRAG (NP (NN Nothing)))"
    assert write_tree(simplify(third), root="ROOT") == "(ROOT (INTJ (UH Oh)))"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("(TOP (NN word))", "(TOP (NN word))"),
        ("(TOP(S(NP(NN a))(VP(VB b))))", "(TOP (S (NP (NN a)) (VP (VB b))))"),
        ("( NP (DT the)\t( NN\ncat ) )", "(TOP (NP (DT the) (NN cat)))"),
        # Only ASCII's white space parts words.
        ("(TOP (NP (CD 1\u00a0000) (NN x\u3000y)))", "(TOP (NP (CD 1\u00a0000) (NN x\u3000y)))"),
        # Two roots; one that holds two constituents; a root's label inside.
        ("(ROOT (TOP (S (VB go))))", "(TOP (S (VB go)))"),
        ("(ROOT (S (VB go)) (. .))", "(TOP (S (VB go)) (. .))"),
        ("(S (ROOT (VB go)))", "(TOP (S (ROOT (VB go))))"),
    ],
)
def test_one_tree(text: str, written: str) -> None:
    assert write_tree(simplify(parse_tree(text))) == written


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(TOP (NP (NN cat))", "line 1: this tree isn't closed at the end of the file"),
        ("(TOP (NP (NN cat))))", "line 1: a closing bracket without an opening one"),
        ("\n\ncat (NP (NN cat))", "line 3: 'cat' is next to brackets"),
        ("(NP (NN cat) dog)", "line 1: 'dog' is next to brackets"),
        ("(NP dog (NN cat))", "line 1: 'dog' is next to brackets"),
        ("(NP (NN the cat))", "line 1: two words in one bracket: 'the' and 'cat'"),
        ("(NN cat)", "line 1: 'cat' is outside a tree"),
        ("(S (-LRB- () (NN a) (-RRB- )))", "line 1: '()' has no word; is it a bracket, -LRB-"),
        ("(S (NP (PRP She)) (VP (VBD (had))))", "line 1: '(had)' has no word"),
        ("(S (NN a))\n()", "line 2: '()' has no word"),
    ],
)
def test_what_is_no_treebank(text: str, fault: str) -> None:
    with pytest.raises(MtkitError) as caught:
        list(read_trees(text.split("\n"), "x.mrg"))
    assert str(caught.value).startswith(f"x.mrg, {fault}")


def test_any_depth() -> None:
    deep = "(S " * 100_000 + "(NN x)" + ")" * 100_000
    tree = parse_tree(deep)
    assert tree.leaves == [Leaf("NN", "x")]
    assert parse_tree(write_tree(simplify(tree))).words == ["x"]


@given(trees, st.integers(0, 3))
def test_what_is_written_is_read_again(tree, num_spaces: int) -> None:
    text = write_tree(tree, root=None)
    assert parse_tree(text) == tree
    spread = text.replace(" ", " \n" + "\t" * num_spaces).replace(")", ") ")
    assert list(read_trees(spread.split("\n"), "x")) == [tree]
    assert simplify(parse_tree(write_tree(tree))) == tree


@given(st.text(alphabet="() \nSaé-", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = list(read_trees(text.split("\n"), "x"))
    except MtkitError:
        return
    assert all(parse_tree(write_tree(simplify(tree))) for tree in found if simplify(tree).marks)


def test_brackets_in_sentences_are_spelled_as_a_treebank_has_them() -> None:
    assert split_tree_words(" a (big)\u00a0one\tsleeps ") == [
        "a",
        "-LRB-big-RRB-\u00a0one",
        "sleeps",
    ]
