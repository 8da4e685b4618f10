"""A model and text in, translations out: segment, encode, search, rerank, join.

translate.py        the front door: a translator of lines, for Python and the command line
translation.py      what is asked of it, and what it answers: outputs, warnings, a line's fault
line_translator.py  the steps of a translation, in order
segment.py          a line that is too long cut into parts, and what was found for them joined
encode.py           a line in tokens, in parts where it is too long
batching.py         sentences of like length, searched in batches
streams/            a stream of lines to a stream of translations
search/             how an output is found: greedy, beam, sampling; a given one scored
engines/            what runs the network
identity.py         who translates: which model, engine, device and precision
export.py           the front door of `mtkit export`: a model folder for another engine
engine_comparison.py  whether an export does what its model does: outputs, quality, speed

An engine's library is loaded with the engine: this file and translate.py import neither torch nor
CTranslate2.
"""
