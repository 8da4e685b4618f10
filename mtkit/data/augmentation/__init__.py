"""Training examples made from other examples.

An example depends on the seed and its pair's text alone, not on the block or the process.
"""
