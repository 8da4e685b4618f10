"""Pairs as people type them: in capitals, with errors, without a full stop."""

from random import Random

import regex

_WORD = regex.compile(r"\p{L}{4,}")
_FINAL = regex.compile(r"(?<=\w[\p{Pe}\p{Pf}\"']?)[.!?。！？…]+(?=[\p{Pe}\p{Pf}\"”’]?\s*$)")
"""Final punctuation behind a word."""


def write_title(text: str) -> str:
    """Returns a text with the first letter of each word in upper case; others stay as they are."""
    return regex.sub(r"(?<![\p{L}\p{M}\p{N}'’])\p{Ll}", lambda found: found.group().upper(), text)


def strip_final_punctuation(text: str) -> str | None:
    """Returns a text without its final punctuation; None where it has none."""
    stripped, count = _FINAL.subn("", text)
    return stripped if count else None


def make_typos(text: str, share: float, random: Random) -> str | None:
    """Returns a text with typing errors in some words of four letters or more.

    None where there is no such word, or where no error changes one.

    Args:
        text: The text.
        share: Of the words.
        random: Decides which, and by which errors.
    """
    words = [found.span() for found in _WORD.finditer(text)]
    if not words:
        return None
    changed = text
    for start, end in sorted(random.sample(words, max(1, round(share * len(words)))), reverse=True):
        changed = changed[:start] + _misspell(changed[start:end], random) + changed[end:]
    return changed if changed != text else None


def _misspell(word: str, random: Random) -> str:
    """Returns a word with one error behind its first letter, which people seldom miss."""
    index = random.randrange(1, len(word) - 1)
    letter = word[index]
    match random.randrange(4):
        case 0:
            return word[:index] + word[index + 1] + letter + word[index + 2 :]
        case 1:
            return word[:index] + word[index + 1 :]
        case 2:
            return word[:index] + letter + word[index:]
        case _:
            return word[:index] + random.choice(word.lower()) + word[index + 1 :]
