"""Risk flags: suspicious translations, found without knowing the language.

A flag is a reason to look at a sentence, not a verdict on it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from mtkit.checks.numbers import list_other_numbers
from mtkit.checks.text import (
    count_repeats,
    list_lacking_addresses,
    share_of_words,
    split_folded_words,
)

Flag = Literal["empty", "repeated", "untranslated", "numbers", "urls", "too short", "too long"]

FLAGS: Final[Mapping[Flag, str]] = {
    "empty": "no text, although the reference has some",
    "repeated": "the same words or characters repeated, more often than in the reference",
    "untranslated": "the source itself, or mostly its words, where the reference differs",
    "numbers": "numbers that are missing, or are in neither source nor reference",
    "urls": "web or e-mail addresses that are missing or changed",
    "too short": "less than half as long as the reference",
    "too long": "more than twice as long as the reference",
}
"""Every flag and its meaning."""

_MIN_COPIED = 0.6
"""Share of words that are in the source. Of 8,860 references from English into French and German
(newstest2014, FLORES-200, Tatoeba), 12 reach it: names and loans are rarely so much of a
sentence."""
_MIN_EXCESS = 0.3
"""Minimum excess of that share over the reference's: the languages may be similar."""
_FEW_WORDS = 4
"""With fewer words, a name or two are most of the sentence."""
_MAX_SPELLED_OUT = 12
"""Style guides spell numbers out up to here, so digits may come and go."""
_MAX_RATIO = 2.0
"""Of lengths in characters. Among 48,064 outputs of WMT17's 16 English-German systems, 112 exceed
it and the gap below, mostly because a part is missing or invented."""
_MIN_GAP = 10
"""Minimum difference of lengths in characters, or `Yes.` would be too long for `Ja`."""


def find_flags(hypothesis: str, reference: str, source: str | None = None) -> frozenset[Flag]:
    """Returns the names of all risk flags of a translation."""
    # An empty translation has only that flag. Defects of the reference aren't counted. Without
    # `source`, nothing is found untranslated, and numbers and addresses are compared with the
    # reference's, which may differ from the source's.
    if hypothesis.split() == reference.split():
        return frozenset()
    if not hypothesis.strip():
        return frozenset(("empty",))
    found: set[Flag] = set()
    repeats = count_repeats(hypothesis)
    if repeats > 1 and repeats > max(map(count_repeats, (reference, source or ""))):
        found.add("repeated")
    if source is not None and _is_untranslated(hypothesis, reference, source):
        found.add("untranslated")
    others = (reference,) if source is None else (source, reference)
    if list_other_numbers(hypothesis, *others, is_often_spelled_out=_is_small):
        found.add("numbers")
    if _has_other_addresses(hypothesis, reference, others[0]):
        found.add("urls")
    length, expected = (len("".join(text.split())) for text in (hypothesis, reference))
    if expected and abs(length - expected) >= _MIN_GAP:
        if length * _MAX_RATIO < expected:
            found.add("too short")
        elif length > expected * _MAX_RATIO:
            found.add("too long")
    return frozenset(found)


def count_flags(flags: Sequence[frozenset[Flag]]) -> dict[str, int]:
    """Returns the number of sentences with each flag, in the order of `FLAGS`."""
    counts = Counter(flag for found in flags for flag in found)
    return {flag: counts[flag] for flag in FLAGS}


def _is_untranslated(hypothesis: str, reference: str, source: str) -> bool:
    ours, expected, given = (
        [word for word in split_folded_words(text) if word.isalpha()]
        for text in (hypothesis, reference, source)
    )
    if ours and ours == given != expected:
        return True
    if len(ours) < _FEW_WORDS:
        return False
    copied = share_of_words(ours, given)
    return copied >= _MIN_COPIED and copied - share_of_words(expected, given) >= _MIN_EXCESS


def _is_small(number: str) -> bool:
    return float(number) <= _MAX_SPELLED_OUT


def _has_other_addresses(hypothesis: str, reference: str, given: str) -> bool:
    expected = reference.casefold()
    missing = any(address in expected for address in list_lacking_addresses(given, hypothesis))
    return missing or bool(list_lacking_addresses(hypothesis, reference, given))
