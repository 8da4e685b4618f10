"""A model and text in, translations out: segment, encode, search, rerank, join.

translate.py        the front door: a translator of lines, for Python and the command line
translation.py      what is asked of it, and what it answers
line_translator.py  the steps of a translation, in order
segment.py          a line that is too long, cut into sentences or less
encode.py           a line in tokens, in parts where it is too long
hypothesis.py       one output with its probability and score
rerank.py           the order of a part's hypotheses
join.py             the hypotheses of parts, joined to those of the line
batching.py         sentences of like length, cut into batches
ensemble.py         whether models fit together
line_error.py       the fault of a single line
line_warnings.py    warnings about lines, and how they are printed
streams/            a stream of lines to a stream of translations
search/             how an output is found: greedy, beam, sampling; a given one scored
engines/            what runs the network
identity.py         who translates: which model, engine, device and precision
export.py           the front door of `mtkit export`: a model folder for another engine
parity.py           whether two engines find the same outputs
engine_comparison.py  how two engines translate the same lines: quality and speed

An engine's library is loaded with the engine: this file and translate.py import neither torch nor
CTranslate2.
"""
