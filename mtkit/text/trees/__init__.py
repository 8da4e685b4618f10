"""Constituency trees: read, simplified, turned into symbols to learn, and made of symbols again.

tree.py       a tree, as the brackets of its text; what of it a parser learns
brackets.py   trees read from Penn Treebank brackets of any layout, and written on one line
symbols.py    a tree as the symbols of a target sentence, in either of two forms
restore.py    symbols, however malformed, as a tree of a sentence's words
"""
