"""Which words of a pair are translations of each other, found by statistics of many pairs."""

from mtkit.data.word_alignment.aligner import ALIGNER_FILE, MAX_WORDS, WordAligner
from mtkit.data.word_alignment.estimate import train_aligner
from mtkit.data.word_alignment.together import align_together
from mtkit.data.word_alignment.word_table import find_aligned_words

__all__ = [
    "ALIGNER_FILE",
    "MAX_WORDS",
    "WordAligner",
    "align_together",
    "find_aligned_words",
    "train_aligner",
]
