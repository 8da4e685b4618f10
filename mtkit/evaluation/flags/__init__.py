"""Flags: suspicious translations, by themselves or compared with their source.

They need no reference; the risk flags of `analysis/` compare with one.
"""

from mtkit.checks.flag import Flag
from mtkit.evaluation.flags.find import FlagFinder, Found, count_flags

__all__ = ["Flag", "FlagFinder", "Found", "count_flags"]
