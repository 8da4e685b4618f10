"""Checks for problems in the text that would make a score meaningless.

Each check looks for one problem that makes scores meaningless or incomparable. Some can't be seen
in the text, such as two good translations that are swapped.

find.py       all checks, the most serious first
pairing.py    whether the sides are what they are called, and their lines belong together
language.py   whether the text is in the right language, and its tokeniser fits that
forms.py      what was done to the text: pieces, tokens, lower case, marks of Windows
lengths.py    whether text is missing
side.py       one side's text, and what can be asked about it
remark.py     a remark
"""

from mtkit.evaluation.remarks.find import find_remarks
from mtkit.evaluation.remarks.remark import Remark

__all__ = ["Remark", "find_remarks"]
