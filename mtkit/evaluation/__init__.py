"""Translations and references become scores: text and numbers only, no torch.

evaluate.py      the front door: systems and references become results
results.py       what was found, as plain values

scores.py        BLEU, chrF and TER by sacreBLEU, with signatures
edits.py         TER's edits, faster than sacreBLEU counts them
tokenizers.py    which of sacreBLEU's tokenisers suits a language
paper_bleu.py    the BLEU that papers on newstest2014 report
comet.py         COMET, by its own command
perplexity.py    how well a language model predicts a text
labels.py        accuracy and F1 of labels
parseval.py      precision, recall and F1 of trees, as EVALB has them
statistics.py    what each sentence adds to a metric, of many systems at once
significance.py  whether a difference between systems could be chance

remarks/         what looks wrong with the text, before anybody believes the score
flags/           what looks wrong with a line's translation, without a reference
analysis/        where systems differ: by kind of sentence, by risk flag, sentence by sentence
report/          tables, JSON, Markdown, and the HTML page
"""

from mtkit.evaluation.report.tables import ScoreRow
from mtkit.evaluation.scores import score_corpus

__all__ = ["ScoreRow", "score_corpus"]
