"""Where systems differ: by kind of sentence, by risk flag, sentence by sentence.

analyze.py      the front: what was found, of all systems
buckets.py      kinds of sentences: by length, rare words, origin and risk flag
flags.py        what looks wrong with a translation without knowing its language
comparison.py   two systems, sentence by sentence
"""

from mtkit.evaluation.analysis.analyze import Analysis, analyze

__all__ = ["Analysis", "analyze"]
