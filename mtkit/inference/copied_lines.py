"""Lines without a letter or a digit, such as emoji and dots: their translation is a copy."""

import regex

from mtkit.inference.translation import Candidate, Translation, WordAlignment
from mtkit.text.words import find_words

_WORD = regex.compile(
    r"[[\p{L}\p{M}\p{N}\p{Cn}]--[\p{Me}\p{Variation_Selector}\p{Extended_Pictographic}]]",
    regex.V1,
)
"""Of a word in any script, an unassigned character too. Emoji contain enclosing marks and variation
selectors, and the newest ones aren't assigned in an older table of Unicode."""
_SYMBOL = regex.compile(r"[\p{P}\p{S}\p{Co}\p{Extended_Pictographic}]")
"""Of the rest, what is seen."""


def is_copied(text: str) -> bool:
    """Returns whether a text has symbols or punctuation, and no letter, mark or digit."""
    return _WORD.search(text) is None and _SYMBOL.search(text) is not None


def copy_line(text: str, *, num_before: int = 0, alignments: bool = False) -> Translation:
    """Returns a text as its own translation, without tokens, with a log-probability of 0.

    Args:
        text: The text.
        num_before: Characters of tags before it in the line.
        alignments: Whether each word is linked with itself.
    """
    alignment = None
    if alignments:
        words = find_words(text, ())
        alignment = WordAlignment(
            tuple((start + num_before, end + num_before) for start, end in words),
            tuple(words),
            tuple((index, index) for index in range(len(words))),
        )
    return Translation((Candidate((), 0.0, 0.0, is_finished=True, text=text, alignment=alignment),))
