"""Reads trees from Penn Treebank brackets in any layout, and writes them on one line.

A target sentence consists of a tree's symbols, in one of two forms: Vinyals et al. 2015 ("Grammar
as a Foreign Language", arXiv 1412.7449, sections 2 and 3), and tensor2tensor's, which Vaswani et
al. 2017 (arXiv 1706.03762, section 6.3) trained with. Both write a tree depth-first, close each
constituent by its label, and leave words out:

    John has a dog .
    vinyals        (S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S
    tensor2tensor  S NP NNP /NP VP VBZ NP DT NN /NP /VP . /S
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mtkit.errors import MtkitError
from mtkit.recipe.parsing import Linearization
from mtkit.text.token_ids import SPECIAL_PIECES

ROOTS = ("", "TOP", "ROOT")
"""Labels of the bracket around a tree, without information."""
TRACE = "-NONE-"
"""Tag of unpronounced elements: a trace, or a zero element."""
PUNCTUATION = (",", ":", "``", "''", ".")
"""Tags of punctuation, which EVALB leaves out by COLLINS.prm."""
_FUNCTION_MARKS = "-="
ANY_TAG = "XX"
"""The tag of all words except punctuation in `vinyals`' form, and of words that a parser missed."""
WORD = re.compile(r"[^ \t\r\n\f\v]+")
"""A word of a sentence: as in a treebank, only ASCII white space separates words."""
_TOKEN = re.compile(r"\(([^ \t\r\n\f\v()]*)|\)|[^ \t\r\n\f\v()]+")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
_BRACKET = re.compile(r"[()]")
_RESERVED = frozenset("▁⁇")
"""Characters by which SentencePiece writes spaces and unknown pieces."""
ROOT = "TOP"
"""Label of the bracket that is written around a tree; EVALB's COLLINS.prm drops it."""


@dataclass(frozen=True, slots=True)
class OpenBracket:
    """The start of a constituent with a label such as `NP-SBJ`."""

    label: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word in the treebank's spelling (`-LRB-` for a bracket), with its part of speech."""

    tag: str
    word: str


@dataclass(frozen=True, slots=True)
class CloseBracket:
    """The end of the innermost open constituent."""


CLOSE = CloseBracket()
Mark = OpenBracket | Leaf | CloseBracket
"""An element of a tree from left to right; trees of any depth need no recursion."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree as marks in order; each constituent is closed."""

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
    """Returns what a parser learns of a tree."""
    # The bracket around it is removed (`TOP`, `ROOT`, or one without a label). So are traces,
    # constituents that hold nothing else, and function tags: `NP-SBJ=2` becomes `NP`, as by EVALB
    # and in Vinyals et al. 2015 (arXiv 1412.7449).
    marks: list[Mark] = []
    for mark in _unwrap(tree.marks):
        match mark:
            case OpenBracket(label):
                marks.append(OpenBracket(strip_functions(label)))
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
        if isinstance(mark, CloseBracket) and isinstance(kept[-1], OpenBracket):
            kept.pop()
        else:
            kept.append(mark)
    return kept


def _unwrap(marks: Sequence[Mark]) -> Sequence[Mark]:
    """Returns the marks without the outer bracket, if it has a root's label."""
    while marks and isinstance(marks[0], OpenBracket) and marks[0].label in ROOTS:
        depth = 0
        for mark in marks[:-1]:
            depth += isinstance(mark, OpenBracket) - isinstance(mark, CloseBracket)
            if depth == 0:
                # It ends before the last mark: there is more than one.
                return marks
        marks = marks[1:-1]
    return marks


def linearize(tree: Tree, form: Linearization) -> list[str]:
    """Returns the symbols of a simplified tree: constituents' starts and ends, and words."""
    # In the form `vinyals` a tag is `XX`, but punctuation keeps its own, as in that paper's
    # figures: scores leave punctuation out, by its tag. A label that looks like a bracket is an
    # error.
    symbols: list[str] = []
    is_vinyals = form == "vinyals"
    labels: list[str] = []
    for mark in tree.marks:
        match mark:
            case OpenBracket(label):
                _check(label, is_vinyals=is_vinyals)
                labels.append(label)
                symbols.append(f"({label}" if is_vinyals else label)
            case Leaf(tag, _) if is_vinyals:
                symbols.append(tag if tag in PUNCTUATION else ANY_TAG)
            case Leaf(tag, _):
                _check(tag, is_vinyals=is_vinyals)
                symbols.append(tag)
            case CloseBracket():
                symbols.append(f"){labels.pop()}" if is_vinyals else f"/{labels.pop()}")
    return symbols


def _check(label: str, *, is_vinyals: bool) -> None:
    if not label:
        raise MtkitError("a bracket inside has no label", "give it a label")
    if label in SPECIAL_PIECES or not _RESERVED.isdisjoint(label):
        raise MtkitError(
            f"the label '{label}' is reserved for vocabularies, or has ▁ or ⁇", "rename the label"
        )
    if not is_vinyals and label.startswith("/"):
        raise MtkitError(
            f"the label '{label}' would close a constituent",
            'set data.parsing.linearization to "vinyals", or rename the label',
        )


def read_trees(lines: Iterable[str], name: str, *, allows_empty: bool = False) -> Iterator[Tree]:
    """Yields the trees of a file, on one line or many, one or several per line.

    A bracket with a label and a word is a word; any other is a constituent, whose label may be
    missing: `( (S ...) )`. `name` is for messages.
    """
    reader = _Reader(allows_empty)
    for number, line in enumerate(lines, start=1):
        try:
            yield from reader.read(line, number)
        except ValueError as error:
            raise MtkitError(
                f"{name}, line {number}: {error}",
                "expected trees such as (TOP (S (NP (NNP Mary)) (VP (VBZ sleeps))))",
            ) from error
    if reader.first_line:
        raise MtkitError(
            f"{name}, line {reader.first_line}: this tree isn't closed at the end of the file",
            "is the file complete?",
        )


def parse_tree(text: str) -> Tree:
    """Returns the one tree in a text; a ValueError for any other text."""
    reader = _Reader()
    trees = list(reader.read(text, 1))
    if reader.first_line:
        raise ValueError("the tree isn't closed")
    if len(trees) != 1:
        raise ValueError(f"expected one tree, found {len(trees)}")
    return trees[0]


@dataclass
class _Reader:
    """Reads trees line by line; `first_line` is where the current tree begins, or 0."""

    allows_empty: bool = True
    first_line: int = 0
    _marks: list[Mark] = field(default_factory=list)
    _depth: int = 0
    _label: str | None = None
    """Label of the last opened bracket, while it is empty."""
    _word: str | None = None
    """The word after that label, while nothing else follows."""

    def read(self, line: str, number: int) -> Iterator[Tree]:
        for found in _TOKEN.finditer(line):
            token = found[0]
            if token[0] == "(":
                self._open(found[1])
                self.first_line = self.first_line or number
            elif token == ")":
                self._close()
                if not self._depth:
                    yield Tree(tuple(self._marks))
                    self._marks, self.first_line = [], 0
            elif self._label is None:
                raise ValueError(f"'{token}' is next to brackets")
            elif self._word is not None and not self._label:
                # A space between a bracket and its label.
                self._label, self._word = self._word, token
            elif self._word is not None:
                raise ValueError(f"two words in one bracket: '{self._word}' and '{token}'")
            else:
                self._word = token

    def _open(self, label: str) -> None:
        if self._label is not None:
            if self._word is not None and self._label:
                raise ValueError(f"'{self._word}' is next to brackets")
            # As above.
            self._marks.append(OpenBracket(self._label or self._word or ""))
        self._label, self._word = label, None
        self._depth += 1

    def _close(self) -> None:
        if not self._depth:
            raise ValueError("a closing bracket without an opening one")
        if self._label is None:
            self._marks.append(CLOSE)
        elif self._word is None:
            if not self.allows_empty:
                # Unescaped, a bracket that is a word looks like this.
                raise ValueError(f"'({self._label})' has no word; is it a bracket, -LRB- or -RRB-?")
            self._marks += [OpenBracket(self._label), CLOSE]
        elif self._depth == 1:
            raise ValueError(f"'{self._word}' is outside a tree")
        else:
            self._marks.append(Leaf(self._label, self._word))
        self._label = self._word = None
        self._depth -= 1


def write_tree(tree: Tree, *, root: str | None = ROOT) -> str:
    """Returns a tree's brackets on one line, with `-LRB-` and `-RRB-` in words."""
    parts = [] if root is None else [f"({root}"]
    for mark in tree.marks:
        match mark:
            case OpenBracket(label):
                parts.append(f" ({label}")
            case Leaf(tag, word):
                parts.append(f" ({tag} {escape(word)})")
            case CloseBracket():
                parts.append(")")
    parts += [] if root is None else [")"]
    return "".join(parts).lstrip()


def escape(text: str) -> str:
    """Returns one or more words with brackets in a treebank's spelling."""
    return _BRACKET.sub(lambda found: _ESCAPES[found[0]], text)


def split_tree_words(sentence: str) -> list[str]:
    """Returns the words of a sentence, with brackets in a treebank's spelling."""
    return WORD.findall(escape(sentence))
