"""Streams around a translator.

translate_stream.py  the front door: a stream of bytes in, translations or scores out
input_format.py      what a line is: text, a tab between source and target, or JSON
line_reader.py       a stream of bytes to lines of bytes, as they come
line_writer.py       whole lines into a stream
windows.py           a stream's lines, taken some at a time and answered together
"""
