"""What a parser wrote amiss, made a tree of the sentence's words: by hand, and any symbols."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.text.trees.brackets import parse_tree, write_tree
from mtkit.text.trees.repairs import Repairs
from mtkit.text.trees.restore import correct_tags, restore_tree

PHRASES = {"S", "NP", "VP", "PP"}


@pytest.mark.parametrize(
    ("sentence", "symbols", "tree", "repairs"),
    [
        ("a b", "(S (NP XX )NP (VP XX )VP )S", "(S (NP (XX a)) (VP (XX b)))", {}),
        # Not closed; closed from outside; closed twice; closed under another name.
        ("a b", "(S (NP XX )NP (VP XX", "(S (NP (XX a)) (VP (XX b)))", {"brackets_added": 2}),
        ("a b", "(S (NP XX (VP XX )S", "(S (NP (XX a) (VP (XX b))))", {"brackets_added": 2}),
        ("a b", "(S XX )NP XX )S )S", "(S (XX a) (XX b))", {"brackets_removed": 2}),
        # Nothing in it; a piece that isn't known; half a bracket.
        ("a", "(S (NP )NP XX )S", "(S (XX a))", {"brackets_removed": 1}),
        ("a", "(S ⁇ XX ( ) )S", "(S (XX a))", {"brackets_removed": 3}),
        # Too few leaves, and too many.
        ("a b c", "(S (NP XX )NP )S", "(S (NP (XX a) (XX b) (XX c)))", {"leaves_added": 2}),
        ("a", "(S (NP XX )NP (VP XX )VP )S", None, {"leaves_removed": 1, "brackets_removed": 1}),
        # Punctuation says which are too few, and which too many.
        (
            "a , b c .",
            "(S (NP XX )NP , (VP XX )VP . )S",
            "(S (NP (XX a)) (, ,) (VP (XX b) (XX c)) (. .))",
            {"leaves_added": 1},
        ),
        (
            "a , b .",
            "(S (NP XX XX XX )NP , (VP XX )VP . )S",
            "(S (NP (XX a)) (, ,) (VP (XX b)) (. .))",
            {"leaves_removed": 2},
        ),
        ("a b", "", "(XX a) (XX b)", {"leaves_added": 2}),
        ("", "(S (NP XX )NP )S", "", {"leaves_removed": 1, "brackets_removed": 2}),
    ],
)
def test_vinyals_form(sentence: str, symbols: str, tree: str | None, repairs: dict) -> None:
    restored = restore_tree(sentence.split(), symbols.split(), "vinyals")
    assert restored.repairs == Repairs(**repairs)
    assert bool(restored.repairs) == bool(repairs)
    if tree is not None:
        assert write_tree(restored.tree, root=None) == tree


@pytest.mark.parametrize(
    ("sentence", "symbols", "tree", "repairs"),
    [
        ("a b", "S NP NN /NP VP VB /VP /S", "(S (NP (NN a)) (VP (VB b)))", {}),
        ("a b", "S NP NN /NP VP VB /S", "(S (NP (NN a)) (VP (VB b)))", {"brackets_added": 1}),
        ("a b", "S NP NN /NP VB", "(S (NP (NN a)) (VB b))", {"brackets_added": 1}),
        ("a b", "S NN /NP VB /S /VP", "(S (NN a) (VB b))", {"brackets_removed": 2}),
        ("a", "S NN VP /VP /S", "(S (NN a))", {"brackets_removed": 2}),
        ("a b c", "S NP NN /NP VP VB /VP /S", None, {"leaves_added": 1}),
    ],
)
def test_tensor2tensors_form(sentence: str, symbols: str, tree: str | None, repairs: dict) -> None:
    restored = restore_tree(sentence.split(), symbols.split(), "tensor2tensor", phrases=PHRASES)
    assert restored.repairs == Repairs(**repairs)
    if tree is not None:
        assert write_tree(restored.tree, root=None) == tree


def test_tags_of_punctuation() -> None:
    symbols = ["(S", "(NP", ".", ")NP", "XX", ":", ")S"]
    restored = restore_tree(["Mary", ",", "--"], symbols, "vinyals")
    assert not restored.repairs
    corrected = correct_tags(restored)
    assert write_tree(corrected.tree) == "(TOP (S (NP (XX Mary)) (, ,) (: --)))"
    assert corrected.repairs == Repairs(tags_changed=2)
    # A word of punctuation that may be something else stays as the parser has it.
    either = restore_tree(["-", "'"], [":", "XX"], "vinyals")
    assert correct_tags(either) == either


SURE, UNSURE, NOT = 0.9, 0.2, 0.0


@pytest.mark.parametrize(
    ("symbols", "attention", "tree", "repairs"),
    [
        # The second word is left out: what follows keeps its tags.
        (
            "S NP DT /NP VP VB /VP /S",
            {2: [SURE, NOT, NOT], 5: [NOT, NOT, SURE]},
            "(S (NP (DT a) (XX b)) (VP (VB c)))",
            {"leaves_added": 1},
        ),
        # As many leaves as words, but the first is there twice and the last isn't.
        (
            "S DT DT NN /S",
            {1: [SURE, NOT, NOT], 2: [SURE, NOT, NOT], 3: [NOT, SURE, NOT]},
            "(S (DT a) (NN b) (XX c))",
            {"leaves_added": 1, "leaves_removed": 1},
        ),
        # An inner constituent is read before what stands in front of it.
        (
            "S DT NP NN /NP /S",
            {1: [NOT, SURE, NOT], 3: [NOT, NOT, SURE]},
            "(S (XX a) (DT b) (NP (NN c)))",
            {"leaves_added": 1},
        ),
        # Doubt is no reason for a change.
        (
            "S DT JJ NN /S",
            {1: [UNSURE] * 3, 2: [UNSURE] * 3, 3: [UNSURE] * 3},
            "(S (DT a) (JJ b) (NN c))",
            {},
        ),
    ],
)
@pytest.mark.parametrize("form", ["tensor2tensor", "vinyals"])
def test_attention_tells_whose_leaf_it_is(
    symbols: str, attention: dict, tree: str, repairs: dict, form: str
) -> None:
    read = symbols.split()
    weights = np.zeros((len(read), 3))
    for index, of_words in attention.items():
        weights[index] = of_words
    if form == "vinyals":
        # The same brackets by their other names.
        read = [
            ")" + symbol[1:] if symbol[0] == "/" else "(" + symbol if symbol in PHRASES else symbol
            for symbol in read
        ]
    restored = restore_tree(list("abc"), read, form, phrases=PHRASES, attention=weights)
    assert write_tree(restored.tree) == f"(TOP {tree})"
    assert restored.repairs == Repairs(**repairs)


BRACKETS = [f"{bracket}{label}" for bracket in "()/" for label in ("S", "NP", "VP")]
ODD = ["XX", ".", ",", "S", "NP", "NN", "⁇", "(", ")", "/", "((", "(a(b", ")x(", "a)b"]
symbols = st.lists(st.sampled_from([*BRACKETS, *ODD]) | st.text(max_size=4), max_size=40)
words = st.lists(st.sampled_from(["a", "b", ",", ".", "--", "é"]), max_size=20)


# A word is missing behind a leaf that is one too many.
@example(["a"] * 9, ["(S", "(S", "(S", "/S", "(S", "(S", "(S", ".", "/S"], "vinyals", 1248)
@given(
    words,
    symbols,
    st.sampled_from(["vinyals", "tensor2tensor"]),
    st.none() | st.integers(0, 2**32 - 1),
)
def test_any_symbols_make_a_tree_of_exactly_the_words(
    words: list[str], symbols: list[str], form: str, seed: int | None
) -> None:
    attention = None
    if seed is not None:
        attention = np.random.default_rng(seed).dirichlet([0.1] * (len(words) + 1), len(symbols))
        attention = attention[:, : len(words)]
    restored = restore_tree(words, symbols, form, phrases=PHRASES, attention=attention)
    restored = correct_tags(restored)
    assert restored.tree.words == words
    assert all(count >= 0 for count in asdict(restored.repairs).values())
    text = write_tree(restored.tree)
    assert parse_tree(text).words == words
    assert "\n" not in text


def test_many_words_and_symbols_take_no_long_time() -> None:
    words = ["a"] * 5_000
    restored = restore_tree(words, ["(S"] * 2_000 + ["XX"] * 4_000, "vinyals")
    assert restored.tree.words == words
    assert restored.repairs == Repairs(brackets_added=2_000, leaves_added=1_000)
