"""Translations and references become scores: text and numbers only, no torch.

evaluate.py      the front door: systems and references become results
results.py       what was found, as plain values

scores.py        BLEU, chrF and TER by sacreBLEU, with signatures
edits.py         TER's edits, faster than sacreBLEU counts them
tokenizers.py    which of sacreBLEU's tokenisers suits a language
paper_bleu.py    the BLEU that papers on newstest2014 report
comet.py         COMET, by its own command
statistics.py    what each sentence adds to a metric, of many systems at once
significance.py  whether a difference between systems could be chance
remarks.py       what looks wrong with the text, before anybody believes the score
side.py          one side's text, and what can be asked about it

analysis.py      where systems differ: by kind of sentence, by risk flag, sentence by sentence
buckets.py       kinds of sentences: by length, rare words, origin and risk flag
flags.py         what looks wrong with a translation without knowing its language
mentions.py      numbers and addresses of a text
comparison.py    two systems, sentence by sentence
words.py         text as words, or as characters where a script has no spaces

report.py        scores as a table, as lines, as JSON, as Markdown
page.py          all of it as one HTML page; templates/ holds its text and its style
plots.py         where points, lines and bars of the page's plots lie
marks.py         words of a translation that its reference doesn't have
"""

from mtkit.evaluation.report import ScoreRow
from mtkit.evaluation.scores import Score, score_corpus

__all__ = ["Score", "ScoreRow", "score_corpus"]
