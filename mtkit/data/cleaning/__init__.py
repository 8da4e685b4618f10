"""Which training pairs are dropped, and how many for what reason; numpy over blocks of pairs."""

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
