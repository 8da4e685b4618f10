"""Flags: suspicious translations, alone or compared with their source.

They need no reference; the risk flags of `analysis/` compare with one.
"""

from mtkit.checks.flag import Flag
from mtkit.evaluation.flags.find_flags import FlagFinder, ScoredLine, count_flagged_lines

__all__ = ["Flag", "FlagFinder", "ScoredLine", "count_flagged_lines"]
