"""Flags: what looks wrong with a line's translation, by itself or beside its source.

They need no reference; the risk flags of `analysis/` compare with one.

find.py      all checks of a line, and how many lines have which flag
flag.py      a flag
language.py  which languages a translation is judged by
"""

from mtkit.evaluation.flags.find import FlagFinder, Found, count_flags
from mtkit.evaluation.flags.flag import Flag

__all__ = ["Flag", "FlagFinder", "Found", "count_flags"]
