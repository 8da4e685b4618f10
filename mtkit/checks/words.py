"""Text as words; where a script has no spaces between them, as characters."""

from collections import Counter
from collections.abc import Sequence

import regex

from mtkit.text.protected import find_addresses
from mtkit.text.words import UNSPACED_SCRIPTS

_UNSPACED = "".join(rf"\p{{Script={name}}}" for name in UNSPACED_SCRIPTS)
# White space, a number with its separators, a word, any other character.
_PIECE = regex.compile(r"\s+|\d+(?:[.,'’٬٫]\d+)*|[\p{L}\p{M}\p{N}]+|\S")
_PIECE_OR_CHARACTER = regex.compile(
    rf"\s+|\d+(?:[.,'’٬٫]\d+)*|[{_UNSPACED}]\p{{M}}*"
    rf"|[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]+|\S",
    regex.VERSION1,
)
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_FIRST_UNSPACED = "\u0e01"
"""Thai's first letter: no script without spaces lies below it, and the simple pattern is fast."""


def list_lacking_addresses(text: str, *others: str) -> list[str]:
    """Returns the addresses of a text that are in none of the others, in lower case.

    Args:
        text: A line.
        others: Lines that may hold the address anywhere, since "www." may be left out.
    """
    addresses = find_addresses(text.casefold())
    folded = [other.casefold() for other in others] if addresses else []
    return [address for address in addresses if not any(address in other for other in folded)]


def is_same_text(one: str, other: str) -> bool:
    """Checks that two lines without space around them are the same but for case and spaces."""
    # Most pairs differ in the first letter, which takes a tenth of the time of folding all.
    if one[:1].casefold()[:1] != other[:1].casefold()[:1]:
        return False
    return one.casefold().split() == other.casefold().split()


def share_of_words(words: Sequence[str], others: Sequence[str]) -> float:
    """Returns the share of words that are among others, each of which counts for one; 0 of none."""
    return (Counter(words) & Counter(others)).total() / len(words) if words else 0.0


def split_text(text: str) -> list[str]:
    """Returns a text cut into words, numbers, punctuation marks and white space.

    Joined again, the pieces are the text. A character of a script without spaces is a piece.
    """
    is_spaced = text.isascii() or max(text) < _FIRST_UNSPACED
    pieces: list[str] = (_PIECE if is_spaced else _PIECE_OR_CHARACTER).findall(text)
    return pieces


def split_words(text: str) -> list[str]:
    """Returns the words and numbers of a text without regard to case, punctuation left out."""
    return [piece for piece in split_text(text.casefold()) if piece[0].isalnum()]


def is_unspaced(texts: Sequence[str]) -> bool:
    """Checks that most words of these texts are characters of scripts without spaces."""
    num_words = num_characters = 0
    for text in texts:
        words = split_words(text)
        num_words += len(words)
        num_characters += sum(_IS_UNSPACED.match(word) is not None for word in words)
    return 2 * num_characters > num_words
