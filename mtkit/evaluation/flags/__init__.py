"""Flags: what looks wrong with a line's translation, by itself or beside its source.

They need no reference; the risk flags of `analysis/` compare with one.

find.py      all checks of a line, and how many lines have which flag
flag.py      a flag
copied.py    whether the source was copied
language.py  whether the translation is in its language
lengths.py   whether it is as long as it should be
mentions.py  whether numbers and addresses are the source's
"""

from mtkit.evaluation.flags.find import FlagFinder, Found, count_flags
from mtkit.evaluation.flags.flag import Flag

__all__ = ["Flag", "FlagFinder", "Found", "count_flags"]
