"""Scores of trees as EVALB computes them with COLLINS.prm (Black et al. 1991; Collins 1997).

Labelled precision, recall and F1 of constituents, summed over sentences, and the share of exact
matches. Words tagged as punctuation are removed from both trees, then constituents without words,
and the bracket around a tree; ADVP and PRT are one label; parts of speech don't count. A sentence
whose trees then have different words, or none, isn't scored: EVALB's "error" and "skip".
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.evaluation.statistics import Statistics, TreeMetric
from mtkit.text.trees.brackets import (
    PUNCTUATION,
    ROOTS,
    TRACE,
    CloseBracket,
    Leaf,
    OpenBracket,
    Tree,
    parse_tree,
    strip_functions,
)
from mtkit.version import __version__

_SHORT = 40
"""Maximum words of a short sentence, including punctuation."""
_LEFT_OUT = (*PUNCTUATION, TRACE)
_SAME_LABEL = {"PRT": "ADVP"}
_DROPPED_LABELS = ("TOP", *_LEFT_OUT)
Span = tuple[int, int, str]
_METRICS: dict[TreeMetric, str] = {
    "tree-precision": "labelled precision",
    "tree-recall": "labelled recall",
    "tree-f1": "labelled F1",
    "tree-exact": "exact match",
}


@dataclass(frozen=True)
class Brackets:
    """The scored parts of a tree.

    Attributes:
        words: Words except punctuation and traces.
        spans: Constituents: first word, the word after the last, and label.
        length: Number of words, including punctuation.
    """

    words: tuple[str, ...]
    spans: Counter[Span]
    length: int


def find_brackets(tree: Tree) -> Brackets:
    """Returns the scored parts of a tree."""
    words: list[str] = []
    spans: Counter[Span] = Counter()
    begun: list[tuple[int, str]] = []
    length = 0
    for index, mark in enumerate(tree.marks):
        match mark:
            case OpenBracket(label):
                is_root = not index and label in ROOTS
                begun.append((len(words), "TOP" if is_root else strip_functions(label)))
            case Leaf(tag, word):
                length += tag != TRACE
                if tag not in _LEFT_OUT:
                    words.append(word)
            case CloseBracket():
                start, label = begun.pop()
                if start < len(words) and label not in _DROPPED_LABELS:
                    spans[start, len(words), _SAME_LABEL.get(label, label)] += 1
    return Brackets(tuple(words), spans, length)


def count_brackets(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """Returns counts per sentence, [sentences, 6].

    They are constituents that match, of the hypothesis, of the reference; whether all match;
    whether the sentence is scored; and whether its reference has at most 40 words. An unscored
    sentence, such as one with an unreadable hypothesis, has 0 in all but the last.
    """
    if len(hypotheses) != len(references):
        raise MtkitError(f"{len(hypotheses):,} trees, but {len(references):,} references")
    counts = np.zeros((len(references), 6), np.int64)
    for row, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        try:
            gold = find_brackets(parse_tree(reference))
        except ValueError as error:
            raise MtkitError(
                f"reference {row + 1} isn't a tree: {error}",
                'metrics = ["parseval"] scores trees such as (TOP (S (VP (VB Go)) (. .)))',
            ) from error
        counts[row, 5] = gold.length <= _SHORT
        try:
            found = find_brackets(parse_tree(hypothesis))
        except ValueError:
            continue
        if not found.words or found.words != gold.words:
            continue
        num_right = (found.spans & gold.spans).total()
        num_found, num_wanted = found.spans.total(), gold.spans.total()
        is_exact = num_right == num_found == num_wanted
        counts[row, :5] = num_right, num_found, num_wanted, is_exact, 1
    return counts


def measure_trees(hypotheses: Sequence[str], references: Sequence[str]) -> list[Statistics]:
    """Returns precision, recall, F1 and exact match, of all sentences and of short ones."""
    counts = count_brackets(hypotheses, references)
    signature = f"parseval|params:COLLINS|scored:{{}}|of:{{}}|version:mtkit-{__version__}"
    statistics = []
    for suffix, chosen in (("", counts), (" to 40 words", counts * counts[:, 5:])):
        num_sentences = len(counts) if not suffix else int(counts[:, 5].sum())
        of_subset = signature.format(int(chosen[:, 4].sum()), num_sentences)
        for metric, name in _METRICS.items():
            one = Statistics.of(metric, f"{name}{suffix}", of_subset, chosen[:, :5])
            statistics.append(one)
    return statistics


def remark_on_trees(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[str, ...]:
    """Returns remarks on the scores, a sentence each."""
    num_left_out = int((count_brackets(hypotheses, references)[:, 4] == 0).sum())
    if not num_left_out:
        return ()
    return (
        f"{num_left_out:,} of {len(references):,} sentences aren't scored, as by EVALB: their "
        "trees can't be read, or their words differ from the reference's, apart from "
        "punctuation.",
    )
