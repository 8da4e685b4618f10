"""Search for outputs, on token ids alone and for any network.

A new search is one file here and one line in the engine. What may not be emitted belongs into
rules.py; choosing among an n-best list by another measure than the score comes after a search, as a
`Reranker` (mtkit/inference/search_parts.py).

Names for shapes: batch, beam, src_len, tgt_len, vocab; beam is how many hypotheses of a sentence
are alive, 1 before the first step. A local that changes shape carries its axes as a suffix:
B batch, W beam (width), K and C candidates, V vocab, S src_len, T tgt_len, G n-grams, N their
length; in constraints.py N states, A tokens of phrases, P phrases.
"""
