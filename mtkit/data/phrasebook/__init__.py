"""A corpus of English and German sentence pairs, made by a grammar of mtkit's own.

It lets mtkit be tried and tested with nothing to download. Every English sentence has one German,
so a small model can learn the task almost perfectly.

    tables     the words, as plain tables
    lexicon    the words, as objects
    english    English word forms
    german     German word forms
    phrases    noun phrases in both languages
    clauses    word order in both languages
    choosing   chooses the parts of a sentence
    sentences  makes whole sentences, one method for each kind
    splits     deals the pairs out to train, dev and test
"""

from mtkit.data.phrasebook.splits import PHRASEBOOK_SPLITS, generate_pairs

__all__ = ["PHRASEBOOK_SPLITS", "generate_pairs"]
