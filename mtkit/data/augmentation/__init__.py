"""Training examples made of others.

What becomes of a pair is a function of the seed and its text: the same in any block and process.
"""
