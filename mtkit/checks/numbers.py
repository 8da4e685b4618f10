"""Finds numbers that one side of a pair lacks, independent of their notation."""

import re
from collections.abc import Callable

from mtkit.text.matching_numbers import have_matching_numbers, write_ascii_digits
from mtkit.text.protected import remove_addresses

_NUMBER = re.compile(r"\d+(?:[.,'’٬٫]\d+|[ \u00a0\u2009\u202f]\d{3}(?!\d))*")
"""Digits and what joins them; a space does so only before three digits."""
_DIGIT = re.compile(r"\d")
_SEPARATOR = re.compile(r"\D")
_DECIMAL_POINTS = ".,٫"
_CLOCK = re.compile(r"\d\s?[ap]\.?\s?m\b", re.IGNORECASE)
"""A 12-hour time, which may become a 24-hour one."""
_MAX_ON_A_CLOCK = 60
_MAX_SPELLED_OUT = 20
_CENTURIES = range(1000, 2200, 10)
"""Decades: the 1980s are the 80s, or the 80s of the 20th century."""


def is_often_spelled_out(number: str) -> bool:
    """Checks for a small number, or a round one with a single digit."""
    return len(number.rstrip("0")) <= 1 or float(number) <= _MAX_SPELLED_OUT


def list_other_numbers(
    hypothesis: str,
    *others: str,
    is_often_spelled_out: Callable[[str], bool],
    reads_times: bool = False,
) -> list[str]:
    """Returns the numbers that a translation lacks, and those that only it has."""
    # A number is missing only if all others have it: a reference may spell out the source's digits.
    # A number on one side without a counterpart is ignored if it is often spelled out. The last of
    # the others may have other units. With reads_times, notations of times and decades are
    # equivalent.
    ours = find_written_numbers(hypothesis)
    given = [find_written_numbers(other) for other in others]
    missing, added = set(given[0].intersection(*given) - ours), set(ours.difference(*given))
    if not (missing or added):
        return []
    if reads_times:
        if any(map(_CLOCK.search, (hypothesis, *others))):
            missing, added = (
                {each for each in side if float(each) >= _MAX_ON_A_CLOCK}
                for side in (missing, added)
            )
        _drop_decades(missing, added)
        _drop_decades(added, missing)
    found = missing | added
    if not (missing and added):
        found = {each for each in found if not is_often_spelled_out(each)}
    # 120,000 may be written 12万, and "101 102" be one number or two.
    if not found or have_matching_numbers(hypothesis, others[-1], share=1.0):
        return []
    return sorted(found, key=lambda each: (len(each), each))


def _drop_decades(whole: set[str], short: set[str]) -> None:
    """Drops decades and their counterparts: 80, and the 20th century."""
    for each in list(whole):
        if each.isdecimal() and len(each) == 4 and int(each) in _CENTURIES:
            century, decade = divmod(int(each), 100)
            if str(decade) in short or (not decade and str(century + 1) in short):
                whole.discard(each)
                short -= {str(decade), str(century + 1)}


def find_written_numbers(text: str) -> frozenset[str]:
    """Returns the numbers of a text in digits, except in addresses."""
    # 1,234.5 and 1.234,5 and 1 234,5 are all `1234.5`; 3,10 is `3.1`. One separator before three
    # digits groups them, since most texts have more thousands than thousandths; in any case it is
    # the same for both texts. Dates and version numbers are split into their numbers.
    if not _DIGIT.search(text):
        return frozenset()
    return frozenset(
        number
        for match in _NUMBER.finditer(remove_addresses(text.casefold()))
        for number in _read_number(write_ascii_digits(match.group()))
    )


def _read_number(written: str) -> list[str]:
    parts, separators = _SEPARATOR.split(written), _SEPARATOR.findall(written)
    if _are_groups(parts, separators):
        return [_write("".join(parts))]
    if separators[-1] in _DECIMAL_POINTS and _are_groups(parts[:-1], separators[:-1]):
        is_other_separator = separators[-1] not in separators[:-1]
        if is_other_separator:
            return [_write("".join(parts[:-1]), parts[-1])]
    return [_write(part) for part in parts]


def _are_groups(parts: list[str], separators: list[str]) -> bool:
    """Checks that digits are one integer: 7 or 1,234,567, or 12,34,567 as in India."""
    if not separators:
        return True
    middle_sizes = {len(part) for part in parts[1:-1]}
    return (
        len(set(separators)) == 1
        and len(parts[0]) <= 3
        and len(parts[-1]) == 3
        and (middle_sizes <= {3} or (middle_sizes == {2} and separators[0] == ","))
    )


def _write(whole: str, decimals: str = "") -> str:
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole
