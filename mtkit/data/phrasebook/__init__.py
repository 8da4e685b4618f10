"""A corpus of English and German sentence pairs, made by a grammar of mtkit's own.

It lets mtkit be tried and tested with nothing to download. Every English sentence has one German,
so a small model can learn the task almost perfectly.
"""

from mtkit.data.phrasebook.sentences import PHRASEBOOK_SPLITS, generate_pairs

__all__ = ["PHRASEBOOK_SPLITS", "generate_pairs"]
