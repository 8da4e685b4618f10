"""A constituency tree, and what of it a parser learns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROOTS = ("", "TOP", "ROOT")
"""Labels of the bracket around a tree, which tell nothing of it."""
TRACE = "-NONE-"
"""Tag of what isn't pronounced: a trace, or a zero element."""
PUNCTUATION = (",", ":", "``", "''", ".")
"""Tags of punctuation, which EVALB leaves out by COLLINS.prm."""
_FUNCTION_MARKS = "-="


@dataclass(frozen=True, slots=True)
class Open:
    """A constituent begins.

    Attributes:
        label: Its label, such as `NP-SBJ`.
    """

    label: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word.

    Attributes:
        tag: Its part of speech, such as `NNP`.
        word: The word, in the treebank's spelling: `-LRB-` for a bracket.
    """

    tag: str
    word: str


@dataclass(frozen=True, slots=True)
class Close:
    """The constituent ends that began last."""


CLOSE = Close()
Mark = Open | Leaf | Close
"""What a tree's text says from left to right; so a tree of any depth takes no recursion."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree: its marks in order, each constituent closed.

    Attributes:
        marks: Constituents' beginnings and ends, and words.
    """

    marks: tuple[Mark, ...]

    @property
    def leaves(self) -> list[Leaf]:
        """Its words with their tags."""
        return [mark for mark in self.marks if isinstance(mark, Leaf)]

    @property
    def words(self) -> list[str]:
        """Its words."""
        return [leaf.word for leaf in self.leaves]


def simplify(tree: Tree) -> Tree:
    """Returns what a parser learns of a tree.

    The bracket around it goes (`TOP`, `ROOT`, or one without a label); so do traces, constituents
    that hold nothing else, and function tags of constituents: `NP-SBJ=2` becomes `NP`, as by EVALB
    and in Vinyals et al. 2015 (arXiv 1412.7449).
    """
    marks: list[Mark] = []
    for mark in _unwrap(tree.marks):
        match mark:
            case Open(label):
                marks.append(Open(strip_functions(label)))
            case Leaf(tag, _) if tag == TRACE:
                pass
            case _:
                marks.append(mark)
    return Tree(tuple(drop_empty(marks)))


def strip_functions(label: str) -> str:
    """Returns a constituent's label without function tags and indices; `-LRB-` stays whole."""
    for index, letter in enumerate(label):
        if index and letter in _FUNCTION_MARKS:
            return label[:index]
    return label


def drop_empty(marks: Iterable[Mark]) -> list[Mark]:
    """Returns marks without constituents that hold no word."""
    kept: list[Mark] = []
    for mark in marks:
        if isinstance(mark, Close) and isinstance(kept[-1], Open):
            kept.pop()
        else:
            kept.append(mark)
    return kept


def _unwrap(marks: Sequence[Mark]) -> Sequence[Mark]:
    """Returns the marks without the bracket around all of them, if it has a root's label."""
    while marks and isinstance(marks[0], Open) and marks[0].label in ROOTS:
        depth = 0
        for mark in marks[:-1]:
            depth += isinstance(mark, Open) - isinstance(mark, Close)
            if depth == 0:
                # It ends before the last mark: there is more than one.
                return marks
        marks = marks[1:-1]
    return marks
