"""Search for outputs, on token ids only and for any network.

A new search is one file here and one line in the engine. Tokens that may not be emitted belong in
rules.py. Reordering an n-best list by another measure comes after the search, as a `Reranker`
(mtkit/inference/search_parts.py).

Names for shapes: batch, beam, src_len, tgt_len, vocab; beam is the number of live hypotheses per
sentence, 1 before the first step. A local that changes shape has its axes as a suffix:
B batch, W beam (width), K and C candidates, V vocab, S src_len, T tgt_len, G n-grams, N their
length; in constraints.py N states, A tokens of phrases, P phrases.
"""
