"""A tree as the symbols of a target sentence.

Two forms: Vinyals et al. 2015 ("Grammar as a Foreign Language", arXiv 1412.7449, sections 2 and 3),
and tensor2tensor's, which Vaswani et al. 2017 (arXiv 1706.03762, section 6.3) trained with. Both
write a tree depth-first, close each constituent by its label, and leave words out:

    John has a dog .
    vinyals        (S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S
    tensor2tensor  S NP NNP /NP VP VBZ NP DT NN /NP /VP . /S
"""

from mtkit.errors import MtkitError
from mtkit.recipe.parsing import Linearization
from mtkit.text.trees.tree import PUNCTUATION, Close, Leaf, Open, Tree

ANY_TAG = "XX"
"""The tag of every word but punctuation in `vinyals`' form, and of words that a parser forgot."""


def linearize(tree: Tree, form: Linearization) -> list[str]:
    """Returns the symbols of a tree, one for each constituent's beginning and end and each word.

    In the form `vinyals` a tag is `XX`, but punctuation keeps its own, as in that paper's figures:
    scores leave punctuation out, and tell it by its tag.

    Args:
        tree: A tree, simplified.
        form: Which of the two.

    Raises:
        MtkitError: A label that the form can't tell from a bracket.
    """
    symbols: list[str] = []
    is_vinyals = form == "vinyals"
    labels: list[str] = []
    for mark in tree.marks:
        match mark:
            case Open(label):
                _check(label, is_vinyals=is_vinyals)
                labels.append(label)
                symbols.append(f"({label}" if is_vinyals else label)
            case Leaf(tag, _) if is_vinyals:
                symbols.append(tag if tag in PUNCTUATION else ANY_TAG)
            case Leaf(tag, _):
                _check(tag, is_vinyals=is_vinyals)
                symbols.append(tag)
            case Close():
                symbols.append(f"){labels.pop()}" if is_vinyals else f"/{labels.pop()}")
    return symbols


def _check(label: str, *, is_vinyals: bool) -> None:
    if not label:
        raise MtkitError("a tree has a bracket without a label inside", "give it a label")
    if not is_vinyals and label.startswith("/"):
        raise MtkitError(
            f"a tree has the label '{label}', which would close a constituent",
            'set data.parsing.linearization to "vinyals", or rename the label',
        )
