"""Checks whether two lines have the same numbers, each in the best reading.

"101 102 103" may be one number or three, 120,000 may be written 12万, and 三十五 is a number if the
other line has 35. A line's numbers in their usual reading are cheap to find (`find_numbers`); other
readings are tried only if those don't match (`have_matching_numbers`).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, product
from math import prod

from mtkit.text.words import Span

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
"""Chinese, Japanese and Korean units, each one character."""
HANGUL_UNITS = "백천만억조"
"""From the smallest up."""
NUMERALS = "".join(_DIGITS)
"""Chinese and Japanese digits."""
_MAX_CHARACTERS = 100
"""Longer sequences aren't read as numbers."""

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
Reading = tuple[str, ...]
"""Numbers by their digits, without leading zeros."""
_USUAL = re.compile(r"\d{1,3}(?:[.,'’´٬ \u00a0\u2007\u2009\u202f]\d{3})+(?!\d)|\d+")
"""Digits in a row; groups of three after a separator continue the number."""
_WHOLE = re.compile(rf"(?:{_USUAL.pattern})(?:[.,٫](?:{_USUAL.pattern}))*")
"""A number with its decimals, a date, a version."""
_NO_DIGIT = re.compile(r"\D")
_SPACES = " \u00a0\u2007\u2009\u202f"
_DECIMAL_POINTS = ".,٫．，"
_RUN = rf"\d++(?:[{_SPACES}{_DECIMAL_POINTS}'’´`＇٬]\d++)*"
_BEFORE_SMALLER = "|".join(
    rf"(?<={unit}) (?=\d+ ?[{HANGUL_UNITS[:size]}])"
    for size, unit in enumerate(HANGUL_UNITS)
    if size
)
_UNIT = rf"[{UNITS}{NUMERALS}](?:{_BEFORE_SMALLER})?"
"""A unit or numeral; Korean puts a space before the next, smaller part of a number: 5만 3천."""
_MENTION = re.compile(rf"(?:{_RUN}(?: ?[多余餘]?(?=[{UNITS}]))?|{_UNIT})+")
"""Digits and what may join them, with or without units and numerals."""
_COUNTED = re.compile(
    rf"\d{{1,3}}(?:[{_SPACES},，.'’]\d{{3}})+(?!\d)(?:[.．]\d+)?|\d+(?:[.．]\d+)?"
)
"""A number that may precede a unit: thousands, decimals after a point."""
_WITH_UNITS = re.compile(rf"(?:(?:{_COUNTED.pattern})(?: ?[多余餘]?(?=[{UNITS}]))?|{_UNIT})+")
_GUESS = re.compile(rf" ?[多余餘]?(?=[{UNITS}])")
"""Words such as "more than" between a number and its unit."""
_HAS_UNIT = re.compile(rf"[{UNITS}{NUMERALS}]")
_MAX_COMBINATIONS = 1_000
_MAX_GROUPS = 10
"""Maximum groups of digits in one number."""


def find_scales(line: str, end: int) -> Iterator[int]:
    """Yields the powers of ten that a word after a number, which ends at `end`, may mean."""
    word = _SCALE.match(line, end)
    if word is not None:
        folded = word.group(1).casefold()
        yield from (power for power, words in _SCALE_WORDS if words.fullmatch(folded))


def read_numerals(written: str) -> int | None:
    """Returns the value of digits with units, or of numerals; None if it isn't an integer.

    `written` has `UNITS`, `NUMERALS` and numbers in digits, with a point before decimals.
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
            # Without units, digits are positional, as in a year.
            tens = current if current is not None and token_before in _DIGITS else Fraction(0)
            current = 10 * tens + _DIGITS[token]
        elif current is not None or token.count(".") > 1:
            return None
        else:
            current = Fraction(token)
        token_before = token
    value = total + section + (current or 0)
    return int(value) if value.denominator == 1 else None


@dataclass(frozen=True)
class _Mention:
    """A part of a line that may be a number, or several.

    Attributes:
        others: Other readings of it as one number.
        groups: Its groups of digits, which may be separate numbers.
    """

    usual: Reading
    others: tuple[Reading, ...] = ()
    groups: Reading = ()


def find_numbers(line: str, min_value: int = 0) -> Counter[str]:
    """Returns the numbers of a line in digits that are at least `min_value`."""
    return Counter(_leave_out_small(_read_usual(line), min_value))


def locate_numbers(line: str) -> list[Span]:
    """Returns the spans of a line's numbers in digits, including decimals."""
    return [found.span() for found in _WHOLE.finditer(line)]


def have_matching_numbers(one: str, other: str, *, share: float, min_value: int = 0) -> bool:
    """Returns whether two lines have a reading in which enough of their numbers match."""
    # Digits are read as several numbers only if the other line has some of these as separate
    # numbers: 10,999 and 10,998 are never a ten and something. `share` is of the numbers of the
    # side with more. Numbers below `min_value` don't count.
    mentions = [list(_find_mentions(line, min_value)) for line in (one, other)]
    known = [frozenset(_count(chain.from_iterable(map(_list_all, side)))) for side in mentions]
    whole = [frozenset(_count(chain.from_iterable(map(_list_whole, side)))) for side in mentions]
    ours = [_list_readings(mention, known[1], whole[1], min_value) for mention in mentions[0]]
    theirs = [_list_readings(mention, known[0], whole[0], min_value) for mention in mentions[1]]
    if prod(map(len, (*ours, *theirs))) > _MAX_COMBINATIONS:
        ours = [[_choose(readings, known[1])] for readings in ours]
        theirs = [[_choose(readings, known[0])] for readings in theirs]
    return any(
        match_numbers(_count(chosen[: len(ours)]), _count(chosen[len(ours) :]), share)
        for chosen in product(*ours, *theirs)
    )


def _list_all(mention: _Mention) -> tuple[Reading, ...]:
    """Returns all readings except unusual ones as several numbers."""
    return mention.usual, *mention.others


def _list_whole(mention: _Mention) -> tuple[Reading, ...]:
    """Returns the same without the digits among units: 12 isn't a separate number in 12万."""
    return _list_all(mention) if mention.groups else mention.others


def match_numbers(one: Counter[str], other: Counter[str], share: float) -> bool:
    """Returns whether both sides share enough of the numbers of the side with more."""
    return (one & other).total() >= share * max(one.total(), other.total())


def _count(readings: Iterable[Reading]) -> Counter[str]:
    return Counter(number for reading in readings for number in reading)


def _find_mentions(line: str, min_value: int) -> Iterator[_Mention]:
    """Yields the parts of a line that may be numbers."""
    for match in _MENTION.finditer(line):
        parts = [match]
        if _HAS_UNIT.search(match.group()):
            parts = list(_WITH_UNITS.finditer(line, match.start(), match.end()))
        for part in parts:
            written = part.group()
            groups: Reading = ()
            if _HAS_UNIT.search(written):
                others = list(_read_units(written))
            else:
                groups = tuple(map(write_ascii_digits, _NO_DIGIT.split(written)))
                separators = _NO_DIGIT.findall(written)
                others = list(_join(groups, separators))
                for power in find_scales(line, part.end()):
                    others += _scale(groups, separators, power)
            yield _Mention(
                _leave_out_small(_read_usual(written), min_value),
                tuple((number,) for number in _leave_out_small(map(_value, others), min_value)),
                groups,
            )


def _list_readings(
    mention: _Mention, known: Set[str], whole: Set[str], min_value: int
) -> list[Reading]:
    """Returns the usual reading, and others that share a number with the other side."""
    others = [reading for reading in mention.others if not known.isdisjoint(reading)]
    split = _leave_out_small(_split(mention.groups, whole), min_value)
    if not whole.isdisjoint(split):
        others.append(split)
    return list(dict.fromkeys((mention.usual, *others)))


def _choose(readings: Sequence[Reading], known: Set[str]) -> Reading:
    """Returns the first reading with the largest share of its digits in known numbers."""

    def weigh(reading: Reading) -> float:
        matched = sum(len(number) for number in reading if number in known)
        return matched / max(1, sum(map(len, reading)))

    return max(readings, key=weigh)


def _join(groups: Reading, separators: Sequence[str]) -> Iterator[str]:
    """Yields groups of digits as one integer, if that is a valid form."""
    if separators and (_are_one_number(groups) or set(separators) <= set(_SPACES)):
        yield "".join(groups)


def _scale(groups: Reading, separators: Sequence[str], power: int) -> Iterator[str]:
    """Yields a number times a power of ten: in thousands, or with decimals."""
    if _are_one_number(groups):
        yield "".join(groups) + "0" * power
    decimals = groups[-1]
    has_point = bool(separators) and separators[-1] in _DECIMAL_POINTS
    if has_point and _are_one_number(groups[:-1]) and len(decimals) <= power:
        yield "".join(groups[:-1]) + decimals.ljust(power, "0")


def _read_units(written: str) -> Iterator[str]:
    """Yields the values of digits with units, with a point as decimals and as thousands."""
    plain = _GUESS.sub("", write_ascii_digits(written))
    for write in (_write_decimals, _drop_separators):
        value = read_numerals(_COUNTED.sub(write, plain).replace(" ", ""))
        if value is not None:
            yield str(value)


def _write_decimals(number: re.Match[str]) -> str:
    """Returns a number without separators except the point before its decimals."""
    *groups, last = _NO_DIGIT.split(number.group())
    separators = _NO_DIGIT.findall(number.group())
    has_point = bool(separators) and separators[-1] in ".．"
    return "".join(groups) + ("." if has_point else "") + last


def _drop_separators(number: re.Match[str]) -> str:
    """Returns a number with its separators read as thousands, if possible."""
    is_whole = _are_one_number(tuple(_NO_DIGIT.split(number.group())))
    return _NO_DIGIT.sub("", number.group()) if is_whole else _write_decimals(number)


def _split(groups: Reading, known: Set[str]) -> Reading:
    """Returns the split into numbers of one or more groups with most digits in known numbers."""
    # For each count of groups: matched digits, fewer numbers first, and the numbers.
    best: list[tuple[int, int, Reading]] = [(0, 0, ())]
    for end in range(1, len(groups) + 1):
        found = []
        for start in range(max(0, end - _MAX_GROUPS), end):
            part = groups[start:end]
            # A group with a leading zero continues a number, unless none has begun.
            if _are_one_number(part) and (part[0][0] != "0" or groups[0][0] == "0" or not start):
                matched, fewer, numbers = best[start]
                number = _value("".join(part))
                matched += len(number) if number in known else 0
                found.append((matched, fewer - 1, (*numbers, number)))
        if not found:
            matched, fewer, numbers = best[end - 1]
            found = [(matched, fewer - 1, (*numbers, _value(groups[end - 1])))]
        best.append(max(found, key=lambda entry: entry[:2]))
    return best[-1][2]


def _are_one_number(groups: Reading) -> bool:
    """Returns whether the sizes of groups are those of one number."""
    # Three digits each, two and finally three as in India, or four as in China.
    first, *others = map(len, groups)
    *middle, last = others or [0]
    return (
        not others
        or (first <= 3 and set(others) == {3})
        or (first <= 2 and last == 3 and set(middle) == {2})
        or (first <= 4 and set(others) == {4})
    )


def _read_usual(written: str) -> Reading:
    return tuple(
        _value(write_ascii_digits(number if number.isdecimal() else _NO_DIGIT.sub("", number)))
        for number in _USUAL.findall(written)
    )


def write_ascii_digits(written: str) -> str:
    """Returns text with the digits of other scripts as 0 to 9."""
    if written.isascii():
        return written
    return "".join(
        str(unicodedata.decimal(character)) if character.isdecimal() else character
        for character in written
    )


def _value(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _leave_out_small(numbers: Iterable[str], min_value: int) -> Reading:
    width = len(str(min_value))
    # Python rejects integers of thousands of digits.
    return tuple(
        number
        for number in numbers
        if len(number) > width or (len(number) == width and int(number) >= min_value)
    )
