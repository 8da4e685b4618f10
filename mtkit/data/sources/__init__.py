"""Reads corpora as pairs of lines, or lines in one language, in constant memory."""
