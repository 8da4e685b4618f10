"""A corpus of English and German sentence pairs, made by a grammar of mtkit's own.

It lets mtkit be tried and tested with nothing to download. Every English sentence has one German,
so a small model can learn the task almost perfectly.

    tables.py     the words, as plain tables
    lexicon.py    the words, as objects
    english.py    English word forms
    german.py     German word forms
    phrases.py    noun phrases in both languages
    clauses.py    word order in both languages
    choosing.py   chooses the parts of a sentence
    sentences.py  makes whole sentences, one method for each kind
    splits.py     deals the pairs out to train, dev and test
"""

from mtkit.data.phrasebook.splits import PHRASEBOOK_SPLITS, generate_pairs

__all__ = ["PHRASEBOOK_SPLITS", "generate_pairs"]
