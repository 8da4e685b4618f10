"""Defects of a line or a pair: one detector each, without thresholds and without torch.

Cleaning, flags, risk flags and remarks call them, each with limits of its own.

copied.py      text that wasn't translated
language.py    text in another language
lengths.py     how long a translation is beside its source
numbers.py     numbers that one side lacks
addresses.py   web and e-mail addresses that one side lacks
repetition.py  the same stretch again and again
words.py       a line cut into words
characters.py  a block of lines as one array of characters, with the kind of each
"""
