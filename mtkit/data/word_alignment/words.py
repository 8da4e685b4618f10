"""The words that are aligned, found without a tokenizer."""

from functools import lru_cache

import regex

from mtkit.text.words import Span

_WORD = regex.compile(
    # Scripts without spaces between words: a character each.
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]\p{M}*"
    r"|\p{N}+(?:[.,]\p{N}+)*"
    r"|[\p{L}\p{M}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]]"
    r"+['’]?"
    r"|[^\s\p{L}\p{M}\p{N}]",
    regex.V1,
)


def find_aligned_words(text: str, start: int = 0, end: int | None = None) -> list[Span]:
    """Returns where the words of a text stand: letters, a number, or one character of another kind.

    An apostrophe belongs to the letters before it, as in French. In scripts that put no space
    between words each character is a word.

    Args:
        text: The text.
        start: Where to begin in it.
        end: Where to end; its end by default.
    """
    return [found.span() for found in _WORD.finditer(text, start, end)]


@lru_cache(maxsize=1 << 14)
def split_word(word: str) -> tuple[tuple[str, bool], ...]:
    """Returns the aligned words of a word between spaces, as they were learned.

    Each has whether its links are the word's: a word's own punctuation has none.
    """
    has_letters = any(map(str.isalnum, word))
    return tuple(
        (word[start:end].casefold(), not has_letters or word[start].isalnum())
        for start, end in find_aligned_words(word)
    )
