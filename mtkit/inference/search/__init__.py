"""Search for outputs, on token ids alone and for any network.

step_model.py   the model interface of a search; an encoder-decoder, and an ensemble
compiled_steps.py    an encoder-decoder whose passes are compiled; it finds the best tokens itself
batch_vocabulary.py  the tokens that a batch's sentences may need, each its own among them
rules.py        forbidden tokens: repeated n-grams, an early end, anything but a given prefix
penalties.py    length penalties, and the score of a finished output
greedy.py       the likeliest token at each step
beam.py         the best few outputs, with an exact rule for when to stop
constraints.py  phrases that an output must contain
sampling.py     random samples
scoring.py      the probability of given outputs

A new search is one file here and one line in the engine. What may not be emitted belongs into
rules.py; choosing among an n-best list by another measure than the score comes after a search, as a
`Reranker` (mtkit/inference/search_parts.py).

Names for shapes: batch, beam, src_len, tgt_len, vocab; beam is how many hypotheses of a sentence
are alive, 1 before the first step. A local that changes shape carries its axes as a suffix:
B batch, W beam (width), K and C candidates, V vocab, S src_len, T tgt_len, G n-grams, N their
length; in constraints.py N states, A tokens of phrases, P phrases.
"""
