"""Which words of a pair are translations of each other, found by statistics of many pairs.

aligner.py         a trained aligner
estimate.py        its probabilities, learned from pairs
together.py        pairs aligned together, with an aligner as the prior
learner.py         the rounds of both: counts of links, and what they come to
blocks.py          pairs of alike lengths
hidden_markov.py   posteriors of IBM model 1 and of a hidden Markov model
word_table.py      words as numbers, and those that stand in pairs together
words.py           the words that are aligned
"""

from mtkit.data.word_alignment.aligner import ALIGNER_FILE, MAX_WORDS, WordAligner
from mtkit.data.word_alignment.estimate import train_aligner
from mtkit.data.word_alignment.together import align_together
from mtkit.data.word_alignment.words import find_aligned_words

__all__ = [
    "ALIGNER_FILE",
    "MAX_WORDS",
    "WordAligner",
    "align_together",
    "find_aligned_words",
    "train_aligner",
]
