"""Numbers and addresses of a text, in a form that is the same however they are written."""

import re
import unicodedata

from mtkit.text import addresses

_NUMBER = re.compile(r"\d+(?:[.,'’٬٫]\d+|[ \u00a0\u2009\u202f]\d{3}(?!\d))*")
"""Digits and what joins them; a space does so only before three digits."""
_DIGIT = re.compile(r"\d")
_SEPARATOR = re.compile(r"\D")
_DECIMAL_POINTS = ".,٫"


def find_numbers(text: str) -> frozenset[str]:
    """Returns the numbers of a text that are written in digits, addresses left out.

    1,234.5 and 1.234,5 and 1 234,5 are all `1234.5`; 3,10 is `3.1`. One separator before three
    digits groups them, since most texts hold more thousands than thousandths; whichever it is, it
    is the same for both texts. Dates and version numbers are the numbers they are made of.
    """
    if not _DIGIT.search(text):
        return frozenset()
    return frozenset(
        number
        for match in _NUMBER.finditer(addresses.remove_addresses(text.casefold()))
        for number in _read_number(match.group())
    )


def _read_number(written: str) -> list[str]:
    if not written.isascii():
        written = "".join(
            str(unicodedata.decimal(character)) if character.isdecimal() else character
            for character in written
        )
    parts, separators = _SEPARATOR.split(written), _SEPARATOR.findall(written)
    if _are_groups(parts, separators):
        return [_write("".join(parts))]
    if separators[-1] in _DECIMAL_POINTS and _are_groups(parts[:-1], separators[:-1]):
        is_other_separator = separators[-1] not in separators[:-1]
        if is_other_separator:
            return [_write("".join(parts[:-1]), parts[-1])]
    return [_write(part) for part in parts]


def _are_groups(parts: list[str], separators: list[str]) -> bool:
    """Checks that digits are one whole number: 7 or 1,234,567, or 12,34,567 as in India."""
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


def find_addresses(text: str) -> frozenset[str]:
    """Returns web and e-mail addresses of a text, in lower case, without scheme and `www.`."""
    return frozenset(addresses.find_addresses(text.casefold()))
