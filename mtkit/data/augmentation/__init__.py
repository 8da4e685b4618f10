"""Training examples made of others.

augment.py       the front door: the examples that a recipe makes of a pair
copied_words.py  symbols in place of words that both sides share
terms.py         sources that name translations of some of their words
typing.py        casing, typing errors, missing punctuation

What becomes of a pair is a function of the seed and its text: the same in any block and process.
"""
