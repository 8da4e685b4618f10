"""Attention between pieces to links between words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.translation import WordAlignment
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span, find_owners, find_words

_MIN_SHARE = 0.35
"""Share of a target word's attention from which on a source word is linked beside the first."""


@dataclass(frozen=True)
class LocatedText:
    """A text in pieces and words.

    Attributes:
        words: Where each word stands.
        owners: The word of each token, by its index; -1 of tags, `</s>` and space.
    """

    words: tuple[Span, ...]
    owners: tuple[int, ...]


class WordAligner:
    """Finds the words of lines and outputs, and links them by attention.

    Args:
        tokenizer: What made the tokens.
    """

    def __init__(self, tokenizer: SubwordTokenizer) -> None:
        self._tokenizer = tokenizer

    def locate_source(self, line: str, part: EncodedSource) -> LocatedText:
        """Returns the words of a part of a line; stretches are of the line."""
        start, end = part.span
        text = line[start:end]
        pieces = self._tokenizer.locate("source", text)
        located = _locate(text, pieces, num_before=len(part.tokens) - 1 - len(pieces))
        return _move(located, start)

    def locate_given(self, text: str) -> LocatedText:
        """Returns the words of a given target, whose tokens `</s>` closes."""
        return _locate(text, self._tokenizer.locate("target", text))

    def locate_output(self, text: str, tokens: Sequence[int]) -> LocatedText:
        """Returns the words of an output's text, given its tokens."""
        pieces = self._tokenizer.locate_decoded(tokens)
        words = find_words(text, pieces)
        return LocatedText(tuple(words), tuple(find_owners(pieces, words)))


def align_words(
    source: LocatedText, target: LocatedText, weights: NDArray[np.float32]
) -> WordAlignment:
    """Returns the links of a target's words.

    A word is linked to the source word that has most of its pieces' attention, and to any other
    that has a good share of it. Attention to `</s>` and tags is to no word; a word none of whose
    attention is known has no link.

    Args:
        source: The source's words.
        target: The target's.
        weights: How much each target token attends to each source token, [tgt_len, src_len].
    """
    shares = np.zeros((len(target.words) + 1, len(source.words) + 1))
    # The last row and column are of tokens that belong to no word.
    np.add.at(shares, np.ix_(target.owners, source.owners), weights)
    sizes = np.bincount(np.array(target.owners) + 1, minlength=len(target.words) + 1)[1:]
    to_words = shares[:-1, :-1] / np.maximum(sizes, 1)[:, None]
    most = to_words.max(axis=1, keepdims=True, initial=0.0)
    rows, columns = np.nonzero((to_words > 0.0) & (to_words >= np.minimum(most, _MIN_SHARE)))
    pairs = sorted(zip(columns.tolist(), rows.tolist(), strict=True))
    return WordAlignment(source.words, target.words, tuple(pairs))


def _locate(text: str, pieces: Sequence[Span], *, num_before: int = 0) -> LocatedText:
    """Returns the words of a text whose tokens follow some tags, and are closed by `</s>`."""
    words = find_words(text, pieces)
    owners = [-1] * num_before + find_owners(pieces, words) + [-1]
    return LocatedText(tuple(words), tuple(owners))


def _move(located: LocatedText, start: int) -> LocatedText:
    words = tuple((first + start, last + start) for first, last in located.words)
    return replace(located, words=words)
