"""Numbers and addresses, which a translation takes over: filters that compare them."""

import re
import unicodedata
from collections import Counter

import numpy as np

from mtkit.data.cleaning.characters import Kind
from mtkit.data.cleaning.filters import Block, Flags
from mtkit.recipe.cleaning import Numbers, Urls

_NUMBER = re.compile(r"\d{1,3}(?:[.,'’٬ \u00a0\u2009\u202f]\d{3})+(?!\d)|\d+")
"""Digits in a row; groups of three after a separator go on with the number before."""
_NO_DIGIT = re.compile(r"\D")

_ADDRESS = re.compile(
    r"""(?:[a-z][a-z0-9+.-]{1,15}://|www\.)[^\s<>"'`“”„«»，。、）（(){}|\[\]\\^]+"""
    r"|[a-z0-9._+-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)+"
)
"""Of a case-folded line. Bounded, or a long run of letters would be read from each of its letters;
64 is the greatest length of a mailbox name (RFC 5321, section 4.5.3.1.1)."""
_SCHEME = re.compile(r"^(?:[a-z0-9+.-]*://)?(?:www\.)?")


def find_other_numbers(block: Block, settings: Numbers, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs hold different numbers."""
    found = np.zeros(len(block), np.bool_)
    digits = [text.count(Kind.DECIMAL) for text in (block.source, block.target)]
    # So many numbers take at least so many digits.
    is_candidate = np.maximum(*digits) >= settings.min_numbers * len(str(settings.min_value))
    for place, source, target in block.pairs(chosen & is_candidate):
        ours = _numbers(source, settings.min_value)
        theirs = _numbers(target, settings.min_value)
        most = max(ours.total(), theirs.total())
        if most >= settings.min_numbers:
            found[place] = (ours & theirs).total() < settings.min_match * most
    return found


def _numbers(line: str, least: int) -> Counter[str]:
    """Returns the numbers of a line that aren't less than `least`, by their digits."""
    counts: Counter[str] = Counter()
    width = len(str(least))
    for written in _NUMBER.findall(line):
        digits = _NO_DIGIT.sub("", written)
        if not digits.isascii():
            digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
        digits = digits.lstrip("0") or "0"
        # Python refuses to read a number of thousands of digits.
        if len(digits) > width or (len(digits) == width and int(digits) >= least):
            counts[digits] += 1
    return counts


def find_other_addresses(block: Block, settings: Urls, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs hold different web or e-mail addresses."""
    found = np.zeros(len(block), np.bool_)
    for place, source, target in block.pairs(chosen):
        if not (_may_hold_address(source) or _may_hold_address(target)):
            continue
        ours, theirs = source.casefold(), target.casefold()
        in_ours, in_theirs = _addresses(ours), _addresses(theirs)
        # One side may leave out "www.", which makes an address of a name.
        matched = sum(address in theirs for address in in_ours)
        matched += sum(address in ours for address in in_theirs)
        found[place] = matched < settings.min_match * (len(in_ours) + len(in_theirs))
    return found


def _may_hold_address(line: str) -> bool:
    return "://" in line or "@" in line or "www." in line or "WWW." in line


def _addresses(folded: str) -> list[str]:
    """Returns the addresses of a case-folded line, without scheme and `www.`."""
    return [_SCHEME.sub("", address).rstrip(".,;:!?/*") for address in _ADDRESS.findall(folded)]
