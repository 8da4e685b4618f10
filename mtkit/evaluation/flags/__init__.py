"""Flags: what looks wrong with a line's translation, by itself or beside its source.

They need no reference; the risk flags of `analysis/` compare with one.
"""

from mtkit.checks.flag import Flag
from mtkit.evaluation.flags.find import FlagFinder, Found, count_flags

__all__ = ["Flag", "FlagFinder", "Found", "count_flags"]
