"""Which training pairs are dropped, and how many for what reason; numpy over blocks of pairs.

clean.py       the front door: a block in, those kept out, the others by filter
repairs.py     stray characters that are mended rather than a reason to drop a pair
filters.py     filters that judge one row: encoding, length, letters, script, numbers, repetition
folding.py     lines in a form in which they are compared: letters and digits alone
overlap.py     development and test sentences inside the training text
language.py    scripts of a language, and language identification
alignment.py   stretches whose two sides don't go together: a warning, not a filter
"""

from mtkit.data.cleaning.alignment import Suspect
from mtkit.data.cleaning.clean import Cleaned, Cleaner, measure_length_ratio
from mtkit.data.cleaning.overlap import HeldOut

__all__ = [
    "Cleaned",
    "Cleaner",
    "HeldOut",
    "Suspect",
    "measure_length_ratio",
]
