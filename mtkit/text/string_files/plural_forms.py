"""Plural forms by the header of a catalogue (`Plural-Forms`)."""

import gettext
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

_PLURAL = re.compile(r"plural\s*+=([^;\n]{1,1000})")
_MAX_FORMS = 10
_FREQUENT = 5
"""Numbers up to 1,000 that a form must be for; msgfmt's constant (`OFTEN`)."""


class PluralForms:
    """The plural form of each number; form 0 for all if the header names no valid rule."""

    def __init__(self, header: str) -> None:
        found = _PLURAL.search(header)
        self._choose: Callable[[int], int] | None = None
        if found is not None:
            # A template's header is invalid, and others may be.
            with suppress(ValueError, RecursionError):
                self._choose = gettext.c2py(found[1])

    def find(self, number: int) -> int:
        """Returns the form of a number."""
        try:
            return 0 if self._choose is None else self._choose(number)
        except ArithmeticError:
            return 0

    @cached_property
    def frequent(self) -> frozenset[int]:
        """Forms of several numbers, in which msgfmt requires each argument; all if unknown."""
        if self._choose is None:
            return frozenset(range(_MAX_FORMS))
        counts = Counter(map(self.find, range(1_001)))
        return frozenset(form for form, count in counts.items() if count >= _FREQUENT)
