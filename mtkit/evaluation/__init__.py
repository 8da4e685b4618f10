"""Scores translations against references: text and numbers only, no torch."""

from mtkit.evaluation.report.tables import ScoreRow
from mtkit.evaluation.scores import score_corpus

__all__ = ["ScoreRow", "score_corpus"]
