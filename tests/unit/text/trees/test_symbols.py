"""Trees as symbols and back: the papers' own examples, and all of GUM's trees."""

import gzip
import os
import re
from pathlib import Path

import pytest
from hypothesis import given

from mtkit.data.sources.treebank import read_tree_rows
from mtkit.errors import MtkitError
from mtkit.recipe.parsing import TreeCorpus
from mtkit.text.trees.brackets import (
    PUNCTUATION,
    Leaf,
    Tree,
    linearize,
    parse_tree,
    read_trees,
    simplify,
    write_tree,
)
from mtkit.text.trees.restore import restore_tree

from .random_trees import trees

FORMS = ("vinyals", "tensor2tensor")


def without_tags(tree: Tree) -> Tree:
    """Returns a tree as the form `vinyals` keeps it."""
    return Tree(
        tuple(
            Leaf("XX", mark.word)
            if isinstance(mark, Leaf) and mark.tag not in PUNCTUATION
            else mark
            for mark in tree.marks
        )
    )


@pytest.mark.parametrize(
    ("brackets", "vinyals", "tensor2tensor"),
    [
        # arXiv 1412.7449, figures 1 and 2.
        ("(TOP (S (VP (VB Go)) (. .)))", "(S (VP XX )VP . )S", "S VP VB /VP . /S"),
        (
            "(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))",
            "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S",
            "S NP NNP /NP VP VBZ NP DT NN /NP /VP . /S",
        ),
        # More than one constituent under the root; words without any.
        ("(ROOT (NP (NN a)) (: --) (NN b))", "(NP XX )NP : XX", "NP NN /NP : NN"),
    ],
)
def test_examples(brackets: str, vinyals: str, tensor2tensor: str) -> None:
    tree = simplify(parse_tree(brackets))
    assert " ".join(linearize(tree, "vinyals")) == vinyals
    assert " ".join(linearize(tree, "tensor2tensor")) == tensor2tensor


@given(trees)
def test_symbols_become_the_tree_again(tree: Tree) -> None:
    for form in FORMS:
        restored = restore_tree(tree.words, linearize(tree, form), form)
        assert restored.tree == (tree if form == "tensor2tensor" else without_tags(tree))
        assert not restored.repairs


def test_a_part_of_speech_named_as_a_constituent() -> None:
    for brackets in ("(NP (NP (NP cat)))", "(X (NN a) (X (X b)))", "(S (X (X a)) (X (NN b)))"):
        tree = parse_tree(brackets)
        assert (
            restore_tree(tree.words, linearize(tree, "tensor2tensor"), "tensor2tensor").tree == tree
        )


def test_labels_that_cant_be_told_from_brackets() -> None:
    with pytest.raises(MtkitError, match="label '/' would close"):
        linearize(parse_tree("(S (/ /))"), "tensor2tensor")
    with pytest.raises(MtkitError, match="a bracket inside has no label"):
        linearize(parse_tree("(S ( (NN a) (NN b)))"), "vinyals")


@pytest.mark.parametrize("label", ["</s>", "<unk>", "S▁x", "A⁇B"])
def test_labels_that_a_vocabulary_reserves(label: str, tmp_path: Path) -> None:
    for brackets in (f"(S ({label} (NN a)))", f"(S ({label} a))"):
        path = tmp_path / "trees.mrg"
        path.write_text(f"(S (NN a))\n{brackets}\n")
        message = f"trees.mrg, tree 2: the label '{label}' is reserved"
        with pytest.raises(MtkitError, match=re.escape(message)):
            list(read_tree_rows(TreeCorpus(trees=path), "tensor2tensor"))


@pytest.mark.skipif("MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set")
@pytest.mark.parametrize("form", FORMS)
def test_all_trees_of_gum(form: str) -> None:
    folder = Path(os.environ["MTKIT_TEST_DATA"]) / "gum_const"
    num_trees = 0
    for name in ("train", "dev"):
        with gzip.open(folder / f"{name}.trees.gz", "rt", encoding="utf-8") as file:
            lines = file.read().splitlines()
        with gzip.open(folder / f"{name}.tok.gz", "rt", encoding="utf-8") as file:
            sentences = file.read().splitlines()
        for line, sentence, tree in zip(lines, sentences, read_trees(lines, name), strict=True):
            assert write_tree(tree, root=None) == line
            assert " ".join(tree.words) == sentence
            plain = simplify(tree)
            restored = restore_tree(plain.words, linearize(plain, form), form)
            assert restored.tree == (plain if form == "tensor2tensor" else without_tags(plain))
            assert not restored.repairs
            num_trees += 1
    assert num_trees == 3_707 + 438
