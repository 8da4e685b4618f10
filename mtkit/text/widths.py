"""The amount of text, comparable between scripts."""

import regex

_HAN = regex.compile(r"\p{Han}")
_SYLLABLES = regex.compile(r"[\p{Hiragana}\p{Katakana}\p{Hangul}]")
_LETTERS = regex.compile(r"[\p{L}\p{M}]")


def measure_width(text: str) -> int:
    """Returns the number of characters; one of Han counts as three, a kana or Hangul as two."""
    # So a text and its translation have similar widths.
    if text.isascii():
        return len(text)
    return len(text) + 2 * len(_HAN.findall(text)) + len(_SYLLABLES.findall(text))


def measure_letters(text: str) -> int:
    """Returns the width of the letters alone."""
    return measure_width("".join(_LETTERS.findall(text)))
