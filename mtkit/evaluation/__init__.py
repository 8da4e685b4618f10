"""Translations and references become scores: text and numbers only, no torch.

scores.py  BLEU, chrF and TER by sacreBLEU, with signatures
report.py  scores of test sets as a table, as lines, as JSON
"""

from mtkit.evaluation.report import ScoreRow
from mtkit.evaluation.scores import Score, score_corpus

__all__ = ["Score", "ScoreRow", "score_corpus"]
