"""Whether the numbers and addresses of a translation are its source's."""

import re
from collections.abc import Iterable, Set

from mtkit.evaluation.analysis.mentions import find_addresses, find_numbers
from mtkit.text.numbers import have_matching_numbers

_CLOCK = re.compile(r"\d\s?[ap]\.?\s?m\b", re.IGNORECASE)
"""A clock of twelve hours, which may become one of twenty-four."""
_MAX_ON_A_CLOCK = 60
_MAX_SPELLED_OUT = 20
"""Numbers up to here are often spelled out, and so are those of one digit and zeros."""
_CENTURIES = range(1000, 2200, 10)
"""Where decades are: the 1980s are the 80s, or the 80s of the 20th century."""


def list_other_numbers(source: str, hypothesis: str) -> list[str]:
    """Returns the numbers that are missing in a translation, and those that the source lacks.

    A number that stands on one side alone, with none in its stead, may be spelled out on the other:
    it isn't among them if that is usual.
    """
    given, ours = find_numbers(source), find_numbers(hypothesis)
    missing, added = set(given - ours), set(ours - given)
    if not (missing or added):
        return []
    # 120,000 may be written 12万, and "101 102" be one number or two.
    if have_matching_numbers(source, hypothesis, share=1.0):
        return []
    if _CLOCK.search(source) or _CLOCK.search(hypothesis):
        missing, added = (
            {each for each in side if float(each) >= _MAX_ON_A_CLOCK} for side in (missing, added)
        )
    for one, other in ((missing, added), (added, missing)):
        _drop_decades(one, other)
    if not (missing and added):
        missing, added = (
            {each for each in side if not _is_often_spelled_out(each)} for side in (missing, added)
        )
    return _sort(missing | added)


def _drop_decades(whole: set[str], short: set[str]) -> None:
    """Drops decades, and what the other side has in their stead: 80, and the 20th century."""
    for each in list(whole):
        if each.isdecimal() and len(each) == 4 and int(each) in _CENTURIES:
            century, decade = divmod(int(each), 100)
            if str(decade) in short or (not decade and str(century + 1) in short):
                whole.discard(each)
                short -= {str(decade), str(century + 1)}


def _is_often_spelled_out(number: str) -> bool:
    return len(number.rstrip("0")) <= 1 or float(number) <= _MAX_SPELLED_OUT


def list_other_addresses(source: str, hypothesis: str) -> list[str]:
    """Returns the addresses that are missing in a translation, and those that the source lacks."""
    given, ours = source.casefold(), hypothesis.casefold()
    # Within the text rather than among its addresses: "www." may be left out.
    return _sort(_list_absent(source, ours) | _list_absent(hypothesis, given))


def _list_absent(text: str, other: str) -> Set[str]:
    return {address for address in find_addresses(text) if address not in other}


def _sort(found: Iterable[str]) -> list[str]:
    return sorted(found, key=lambda each: (len(each), each))
