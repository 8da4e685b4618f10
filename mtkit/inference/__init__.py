"""A model and text in, translations out.

translate.py     the front door: a translator of lines, the same from Python and on the command line
lines.py         lines out of a stream and into one
byte_lines.py    a stream of bytes to lines of bytes, as they come
output.py        whole lines into a stream
windows.py       a stream's lines, taken some at a time and answered together
parts.py         a line in tokens, in parts where it is too long
long_lines.py    a line that is too long, cut into sentences and joined again
notices.py       faults of single lines, and warnings that don't flood the screen
export.py        the front door of `mtkit export`: a model folder for another engine
parity.py        whether one engine does what another does
identity.py      who translates: which model, engine, device, precision
hypothesis.py    one output with its probability and score
search/          how an output is found: greedy, beam, sampling; a given one scored
engines/         what runs the network

An engine's library is loaded with the engine: this file and translate.py import neither torch nor
CTranslate2.
"""
