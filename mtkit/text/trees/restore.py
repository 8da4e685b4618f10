"""Turns a parser's symbols, even malformed ones, into a tree of the sentence's words.

A parser may forget a bracket or a word. Repairs are counted.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mtkit.recipe.parsing import Linearization
from mtkit.text.trees.brackets import (
    ANY_TAG,
    CLOSE,
    PUNCTUATION,
    Leaf,
    Mark,
    OpenBracket,
    Tree,
    drop_empty,
)
from mtkit.text.trees.repairs import Repairs

_PUNCTUATION_BY_WORD = {
    **dict.fromkeys((".", "?", "!"), "."),
    **dict.fromkeys((":", ";", "--", "—", "...", "…"), ":"),
    **dict.fromkeys(("``", "“", "„"), "``"),
    **dict.fromkeys(("''", "”", '"'), "''"),
    ",": ",",
}
"""Words that are almost always punctuation, and the tag for one with another tag."""
_HAS_LETTER = re.compile(r"\w")
_NO_SYMBOL = re.compile(r"[()⁇\s]|^/?$")
_MAX_CELLS = 4_000_000
"""Maximum size of the table that aligns leaves and words; beyond it the surplus is cut off."""


@dataclass(frozen=True)
class RestoredTree:
    """A tree made of symbols; its words are the sentence's."""

    tree: Tree
    repairs: Repairs


def restore_tree(
    words: Sequence[str],
    symbols: Sequence[str],
    form: Linearization,
    *,
    phrases: Collection[str] = (),
    attention: NDArray[np.float64] | None = None,
) -> RestoredTree:
    """Returns the tree of a sentence that symbols describe, with brackets and leaves repaired.

    Args:
        words: The sentence.
        symbols: A parser's output, in order.
        form: Their form.
        phrases: Labels of constituents; in tensor2tensor's form they show where an unclosed one
            begins.
        attention: Each symbol's attention to each word, [symbols, words], if known. It shows which
            word a leaf belongs to; without it leaves are taken in order.
    """
    if form == "vinyals":
        draft = _read_vinyals(symbols)
    else:
        draft = _read_tensor2tensor(symbols, ())
        if draft.num_leaves != len(words):
            draft = _read_tensor2tensor(symbols, phrases)
    leaves = [mark.tag for mark in draft.marks if isinstance(mark, Leaf)]
    if attention is not None:
        attention = attention[sorted(draft.positions)]
    steps = _align(leaves, words, attention)
    marks = _place(draft.marks, words, steps)
    kept = drop_empty(marks)
    repairs = Repairs(
        brackets_added=draft.num_added,
        brackets_removed=draft.num_removed + (len(marks) - len(kept)) // 2,
        leaves_added=steps.count(_ADD),
        leaves_removed=steps.count(_REMOVE),
    )
    return RestoredTree(Tree(tuple(kept)), repairs)


def correct_tags(restored: RestoredTree) -> RestoredTree:
    """Returns a tree in which punctuation, and nothing else, has the tags of punctuation."""
    # Scores leave words out by these tags: with one of them wrong, EVALB doesn't score the sentence
    # at all.
    marks: list[Mark] = []
    num_changed = 0
    for mark in restored.tree.marks:
        if isinstance(mark, Leaf) and not _may_be(mark.tag, mark.word):
            marks.append(Leaf(_PUNCTUATION_BY_WORD.get(mark.word, ANY_TAG), mark.word))
            num_changed += 1
        else:
            marks.append(mark)
    repairs = replace(restored.repairs, tags_changed=num_changed)
    return RestoredTree(Tree(tuple(marks)), repairs)


_Item = tuple[str, int] | list[Mark]


@dataclass
class _Draft:
    """Marks with matching brackets; leaves have no words yet."""

    marks: list[Mark]
    num_added: int = 0
    num_removed: int = 0
    positions: list[int] = field(default_factory=list)
    """The symbols that are leaves, in any order."""

    @property
    def num_leaves(self) -> int:
        return sum(isinstance(mark, Leaf) for mark in self.marks)


def _read_vinyals(symbols: Sequence[str]) -> _Draft:
    draft, labels = _Draft([]), list[str]()
    for position, symbol in enumerate(symbols):
        kind, label = symbol[:1], symbol[1:]
        if kind == "(" and label and not _NO_SYMBOL.search(label):
            draft.marks.append(OpenBracket(label))
            labels.append(label)
        elif kind == ")" and label in labels:
            while labels.pop() != label:
                draft.marks.append(CLOSE)
                draft.num_added += 1
            draft.marks.append(CLOSE)
        elif kind in "()" or _NO_SYMBOL.search(symbol):
            draft.num_removed += 1
        else:
            draft.marks.append(Leaf(symbol, ""))
            draft.positions.append(position)
    draft.num_added += len(labels)
    draft.marks += [CLOSE] * len(labels)
    return draft


def _read_tensor2tensor(symbols: Sequence[str], phrases: Collection[str]) -> _Draft:
    """Returns the marks of symbols that become constituents only when they are closed."""
    draft = _Draft([])
    # An item is a symbol with its position, which may still become a constituent, or the marks of a
    # whole constituent.
    items: list[_Item] = []
    for position, symbol in enumerate(symbols):
        if _NO_SYMBOL.search(symbol):
            draft.num_removed += 1
        elif not symbol.startswith("/"):
            items.append((symbol, position))
        else:
            label = symbol[1:]
            # A constituent is never empty, so the last item doesn't begin it.
            begins = [
                index
                for index, item in enumerate(items[:-1])
                if isinstance(item, tuple) and item[0] == label
            ]
            if not begins:
                draft.num_removed += 1
                continue
            held = _gather(items[begins[-1] + 1 :], phrases, draft)
            items[begins[-1] :] = [[OpenBracket(label), *held, CLOSE]]
    draft.marks = _gather(items, phrases, draft)
    return draft


def _gather(items: Sequence[_Item], phrases: Collection[str], draft: _Draft) -> list[Mark]:
    """Returns the marks of a constituent's items, and closes unclosed ones."""
    marks: list[Mark] = []
    num_open = 0
    for index, item in enumerate(items):
        if isinstance(item, list):
            marks += item
            continue
        symbol, position = item
        if symbol not in phrases:
            marks.append(Leaf(symbol, ""))
            draft.positions.append(position)
        elif index + 1 < len(items):
            marks.append(OpenBracket(symbol))
            num_open += 1
        else:
            draft.num_removed += 1
    draft.num_added += num_open
    return [*marks, *[CLOSE] * num_open]


_KEEP, _ADD, _REMOVE = "keep", "add", "remove"
_CHANGE_COST, _ODD_TAG_COST = 4.0, 3.0
_MIN_ATTENTION = 1e-6
"""Added to a weight: no attention at all is worth three changes."""


def _align(
    tags: Sequence[str], words: Sequence[str], attention: NDArray[np.float64] | None
) -> list[str]:
    """Returns the cheapest steps, in order, that turn leaves into words."""
    # With attention a leaf costs minus its logarithm, and a change 4; without it only changes cost.
    # A leaf whose tag its word can't have costs half a change more, with attention most of one, so
    # that punctuation stays in place.
    if attention is None and len(tags) == len(words):
        return [_KEEP] * len(words)
    if len(tags) * len(words) > _MAX_CELLS:
        common = min(len(tags), len(words))
        rest = [_REMOVE] * (len(tags) - common) + [_ADD] * (len(words) - common)
        return [_KEEP] * common + rest
    is_odd = np.array([[not _may_be(tag, word) for word in words] for tag in tags])
    is_odd = is_odd.reshape(len(tags), len(words))
    if attention is None:
        leaf_costs = is_odd * (_CHANGE_COST / 2)
    else:
        leaf_costs = is_odd * _ODD_TAG_COST - np.log(attention + _MIN_ATTENTION)
    costs = np.zeros((len(tags) + 1, len(words) + 1))
    costs[:, 0] = _CHANGE_COST * np.arange(len(tags) + 1)
    costs[0] = _CHANGE_COST * np.arange(len(words) + 1)
    for row in range(len(tags)):
        for column in range(len(words)):
            costs[row + 1, column + 1] = min(
                costs[row, column] + leaf_costs[row, column],
                costs[row, column + 1] + _CHANGE_COST,
                costs[row + 1, column] + _CHANGE_COST,
            )
    steps: list[str] = []
    row, column = len(tags), len(words)
    while row or column:
        here = costs[row, column]
        if column and here == costs[row, column - 1] + _CHANGE_COST:
            steps.append(_ADD)
            column -= 1
        elif row and here == costs[row - 1, column] + _CHANGE_COST:
            steps.append(_REMOVE)
            row -= 1
        else:
            steps.append(_KEEP)
            row, column = row - 1, column - 1
    return steps[::-1]


def _may_be(tag: str, word: str) -> bool:
    """Returns whether a word may have a tag, as far as punctuation is concerned."""
    if word in _PUNCTUATION_BY_WORD:
        return tag in PUNCTUATION
    return tag not in PUNCTUATION or not _HAS_LETTER.search(word)


def _place(marks: Sequence[Mark], words: Sequence[str], steps: Sequence[str]) -> list[Mark]:
    """Returns the marks with words."""
    placed: list[Mark] = []
    done = position = 0

    def add_missing() -> None:
        nonlocal done, position
        while done < len(steps) and steps[done] == _ADD:
            word = words[position]
            placed.append(Leaf(_PUNCTUATION_BY_WORD.get(word, ANY_TAG), word))
            done, position = done + 1, position + 1

    for mark in marks:
        if not isinstance(mark, Leaf):
            placed.append(mark)
            continue
        if not position:
            # Words missing at the beginning go next to the first leaf.
            add_missing()
        if steps[done] == _REMOVE:
            done += 1
            if position:
                add_missing()
            continue
        placed.append(Leaf(mark.tag, words[position]))
        done, position = done + 1, position + 1
        add_missing()
    add_missing()
    return placed
