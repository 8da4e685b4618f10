"""Streams around a translator.

translate_stream.py  the front door: a stream of bytes in, translations or scores out
label_stream.py      the same of a classifier: a stream of bytes in, labels out
input_format.py      what a line is: text, a tab between source and target, or JSON
byte_lines.py        lines of bytes from a stream as they come, and whole ones into a stream
arrivals.py          lines that arrive one by one, collected while those before are answered
windows.py           a stream's lines, taken some at a time and answered together; warnings
"""
