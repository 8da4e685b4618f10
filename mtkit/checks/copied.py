"""Text that was copied instead of translated."""

from collections import Counter
from collections.abc import Sequence


def is_same_text(one: str, other: str) -> bool:
    """Checks that two lines without space around them are the same but for case and spaces."""
    # Most pairs differ in the first letter, which takes a tenth of the time of folding all.
    if one[:1].casefold()[:1] != other[:1].casefold()[:1]:
        return False
    return one.casefold().split() == other.casefold().split()


def share_of_words(words: Sequence[str], others: Sequence[str]) -> float:
    """Returns the share of words that are among others, each of which counts for one; 0 of none."""
    return (Counter(words) & Counter(others)).total() / len(words) if words else 0.0
