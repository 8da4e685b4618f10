"""Checks for problems in the text that would make a score meaningless.

Each check looks for one problem that makes scores meaningless or incomparable. Some can't be seen
in the text, such as two good translations that are swapped.
"""

from mtkit.evaluation.remarks.find import find_remarks
from mtkit.evaluation.remarks.side import Remark

__all__ = ["Remark", "find_remarks"]
