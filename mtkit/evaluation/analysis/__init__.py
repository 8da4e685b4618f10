"""Where systems differ: by kind of sentence, by risk flag, sentence by sentence."""

from mtkit.evaluation.analysis.analyze import Analysis, analyze

__all__ = ["Analysis", "analyze"]
