"""Phrases in the words of a text, found by an automaton (Aho and Corasick 1975)."""

from collections.abc import Iterator, Sequence

import ahocorasick

MAX_MATCHES = 100_000
"""Of a text: phrases that repeat themselves match at every word, each in every other."""
_EDGE = "\n"
"""Between words, in which there is no space."""


class PhraseFinder:
    """Finds phrases, of one word or more, wherever they are in a text, inside others too.

    The time grows with the text's length and the number of matches.

    Args:
        phrases: The words of each; those without words are found nowhere.
    """

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
        """Yields the first word and the index of each phrase that a text has, by their ends.

        Of equal phrases the last is found; no more than `MAX_MATCHES` are.

        Args:
            words: The text's.
        """
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
