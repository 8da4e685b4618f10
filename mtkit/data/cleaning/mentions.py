"""Numbers and addresses, which a translation takes over: filters that compare them."""

import numpy as np

from mtkit.data.cleaning.characters import Kind
from mtkit.data.cleaning.filters import Flags, RepairedRows
from mtkit.recipe.cleaning import Numbers, Urls
from mtkit.text.addresses import find_addresses
from mtkit.text.numbers import find_numbers, have_matching_numbers, match_numbers


def find_other_numbers(block: RepairedRows, settings: Numbers, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs hold different numbers."""
    found = np.zeros(len(block), np.bool_)
    digits = [text.count(Kind.DECIMAL) for text in (block.source, block.target)]
    # So many numbers take at least so many digits.
    is_candidate = np.maximum(*digits) >= settings.min_numbers * len(str(settings.min_value))
    for index, source, target in block.pairs(chosen & is_candidate):
        ours, theirs = (find_numbers(line, settings.min_value) for line in (source, target))
        if max(ours.total(), theirs.total()) < settings.min_numbers:
            continue
        # Few pairs need all readings, which take a hundred times as long.
        found[index] = not (
            match_numbers(ours, theirs, settings.min_match)
            or have_matching_numbers(
                source, target, share=settings.min_match, min_value=settings.min_value
            )
        )
    return found


def find_other_addresses(block: RepairedRows, settings: Urls, chosen: Flags) -> Flags:
    """Returns which of the chosen pairs hold different web or e-mail addresses."""
    found = np.zeros(len(block), np.bool_)
    for index, source, target in block.pairs(chosen):
        if not (_may_hold_address(source) or _may_hold_address(target)):
            continue
        ours, theirs = source.casefold(), target.casefold()
        in_ours, in_theirs = find_addresses(ours), find_addresses(theirs)
        # One side may leave out "www.", which makes an address of a name.
        matched = sum(address in theirs for address in in_ours)
        matched += sum(address in ours for address in in_theirs)
        found[index] = matched < settings.min_match * (len(in_ours) + len(in_theirs))
    return found


def _may_hold_address(line: str) -> bool:
    return "://" in line or "@" in line or "www." in line or "WWW." in line
