"""Finds phrases in the words of a text by an automaton (Aho and Corasick 1975)."""

from collections.abc import Iterator, Sequence

import ahocorasick

MAX_MATCHES = 100_000
"""Maximum matches in a text: phrases of repeated words can match at every word."""
_EDGE = "\n"
"""A separator of words, which contain no space."""


class PhraseFinder:
    """Finds phrases anywhere in a text, also inside others, in linear time."""

    def __init__(self, phrases: Sequence[Sequence[str]]) -> None:
        self._lengths = [len(words) for words in phrases]
        self._automaton = ahocorasick.Automaton()
        for index, words in enumerate(phrases):
            if words:
                self._automaton.add_word(_EDGE + _EDGE.join(words) + _EDGE, index)
        self._is_empty = not len(self._automaton)
        if not self._is_empty:
            self._automaton.make_automaton()

    def find(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yields each match's first word and phrase index, in the order of their ends."""
        # Of equal phrases the last is found.
        if self._is_empty or not words:
            return
        numbers, position = {}, 0
        for number, word in enumerate(words):
            position += len(word) + 1
            numbers[position] = number
        text = _EDGE + _EDGE.join(words) + _EDGE
        for num_found, (end, index) in enumerate(self._automaton.iter(text)):
            if num_found == MAX_MATCHES:
                return
            yield numbers[end] + 1 - self._lengths[index], index
