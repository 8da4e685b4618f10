"""Training examples made of others.

augment.py        the front door: the examples that a recipe makes of a pair
copied_words.py   symbols in place of words that both sides share
aligned_terms.py  words of a pair that are translations of each other by its links
term_lexicon.py  such words of a corpus, and the forms of their translations
terms.py          sources that name translations of some of their words
typing.py         casing, typing errors, missing punctuation

What becomes of a pair is a function of the seed and its text: the same in any block and process.
"""
