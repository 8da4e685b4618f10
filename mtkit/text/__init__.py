"""Text by itself: what is written in a line, whatever it is used for.

addresses.py      web and e-mail addresses
numbers.py        whether two lines hold the same numbers
numerals.py       numbers written with units: 12万, 三百二十, 1.2 million
punctuation.py    Moses' normalisation of punctuation
segmentations.py  other segmentations of a sentence than the best, drawn at random
tokenizer.py      text to token ids and back
"""
