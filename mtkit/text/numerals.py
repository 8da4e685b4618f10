"""Numbers that are written with units: 12万, 三百二十, 1.2 million, 3 crore."""

import re
from collections.abc import Iterator
from fractions import Fraction

_SMALL = {
    "十": 10,
    "拾": 10,
    "百": 100,
    "佰": 100,
    "백": 100,
    "千": 1_000,
    "仟": 1_000,
    "천": 1_000,
}
_LARGE = {
    **dict.fromkeys("万萬만", 10_000),
    **dict.fromkeys("亿億억", 10**8),
    **dict.fromkeys("兆조", 10**12),
}
_DIGITS = {
    digit: value
    for value, written in enumerate(
        (
            "〇零○",
            "一壹壱",
            "二贰貳弐两兩",
            "三叁參参",
            "四肆",
            "五伍",
            "六陆陸",
            "七柒",
            "八捌",
            "九玖",
        )
    )
    for digit in written
}
UNITS = "".join((*_SMALL, *_LARGE))
HANGUL_UNITS = "백천만억조"
"""From the smallest up."""
"""Chinese, Japanese and Korean units, each one character."""
NUMERALS = "".join(_DIGITS)
"""Chinese and Japanese digits."""
_MAX_CHARACTERS = 100
"""A longer stretch is no number that anyone would read."""

_TOKEN = re.compile(r"[\d.]+|[^\d.]")

_SCALES = {
    3: "thousand|tausend|mille|mil",
    5: "lakhs?",
    6: "million(?:s|en)?|mio|millones|millón",
    7: "crores?",
    9: "billions?|bn|milliarden?|milliards?|mrd",
    12: "trillions?|billion(?:en|s)?",
}
"""Powers of ten by their names in English, German, French and Spanish; "billion" is two of them."""
_SCALE = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]+)")
_SCALE_WORDS = [(power, re.compile(words)) for power, words in _SCALES.items()]


def find_scales(line: str, end: int) -> Iterator[int]:
    """Yields the powers of ten that a word behind a number may stand for.

    Args:
        line: The line.
        end: Where the number ends.
    """
    word = _SCALE.match(line, end)
    if word is not None:
        folded = word.group(1).casefold()
        yield from (power for power, words in _SCALE_WORDS if words.fullmatch(folded))


def read_numerals(written: str) -> int | None:
    """Returns the value of digits with units, or of numerals; None where it is no whole number.

    Args:
        written: Of `UNITS`, `NUMERALS` and numbers in digits, with a point before decimals.
    """
    if len(written) > _MAX_CHARACTERS:
        return None
    total = section = Fraction(0)
    current: Fraction | None = None
    unit_before, token_before = 0, ""
    for token in _TOKEN.findall(written):
        if token in _SMALL:
            section += _SMALL[token] * (1 if current is None else current)
            current = None
        elif token in _LARGE:
            section += current or 0
            current, unit = None, _LARGE[token]
            if unit > unit_before:
                # 1万亿 is ten thousand times 亿.
                total = (total + (section or (0 if total else 1))) * unit
            else:
                total += section * unit
            section, unit_before = Fraction(0), unit
        elif token in _DIGITS:
            # Without units digits stand in a row, as those of a year do.
            tens = current if current is not None and token_before in _DIGITS else Fraction(0)
            current = 10 * tens + _DIGITS[token]
        elif current is not None or token.count(".") > 1:
            return None
        else:
            current = Fraction(token)
        token_before = token
    value = total + section + (current or 0)
    return int(value) if value.denominator == 1 else None
