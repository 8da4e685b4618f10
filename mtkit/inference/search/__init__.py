"""How an output is found; no text here, and no knowledge of what network it comes from.

step_model.py   what a search asks of a model; the encoder-decoder behind it, and an ensemble
rules.py        what may not come next: repeated n-grams, an early end, all but a given prefix
penalties.py    how outputs of different lengths are compared: what one that has ended scores
greedy.py       the likeliest token at each step
beam.py         the best few outputs, with an exact rule for when to stop
sampling.py     outputs drawn by chance
scoring.py      the probability of outputs that are given

A new search is one file here and one line in the engine. Constraints on words belong into rules.py;
choosing among an n-best list by another measure than the score comes after a search, as a
`Reranker` (mtkit/inference/line_translator.py).

Names for shapes: batch, beam, src_len, tgt_len, vocab; beam is how many hypotheses of a sentence
are alive, 1 before the first step. A local that changes shape carries its axes as a suffix:
B batch, W beam (width), K candidates, V vocab, S src_len, T tgt_len, G n-grams, N their length.
"""
