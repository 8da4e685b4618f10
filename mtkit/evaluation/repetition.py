"""Stretches of a text that are repeated again and again, as models in a loop write them."""

import re
from collections.abc import Sequence

from mtkit.evaluation.analysis.words import split_words

_LONGEST_STRETCH = 20
"""Words of the longest repeated stretch that is looked for: a whole clause."""


def count_repeats(text: str, max_repeats: int = 3) -> int:
    """Returns the longest run of repeats of one stretch; 1 where none is a loop.

    Args:
        text: The text.
        max_repeats: Times in a row that a word may occur: "No, no, no" is speech. Two to four words
            may once less, as in "on and on and on"; a clause said twice is a loop. A few characters
            may twice as often less one, so that neither `hahaha` nor `...` is a loop; nor are a
            number's zeros.
    """
    loop = re.compile(rf"(\D{{1,4}}?)\1{{{2 * max_repeats - 1},}}")
    loops = (
        len(match.group()) // len(match.group(1))
        for match in loop.finditer("".join(text.casefold().split()))
    )
    return max(_count_word_repeats(split_words(text), max_repeats), *loops, 1)


def _count_word_repeats(words: Sequence[str], max_repeats: int) -> int:
    if len(set(words)) == len(words):
        return 1
    found = 1
    for size in range(1, min(_LONGEST_STRETCH, len(words) // 2) + 1):
        min_repeats = max(2, max_repeats + (1 if size == 1 else 0 if size < 5 else -1))
        num_same = 0
        for word, earlier in zip(words[size:], words, strict=False):
            num_same = num_same + 1 if word == earlier else 0
            times = num_same // size + 1
            if times >= min_repeats:
                found = max(found, times)
    return found
