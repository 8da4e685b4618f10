"""Faults of translations that are to be scored, found before anybody believes the score.

Each check sees one fault that makes scores meaningless or beyond comparison, and says nothing where
the text doesn't show it. That hypotheses and references are exchanged, say, no text of two good
translations can show.

find.py       all checks, the gravest first
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
