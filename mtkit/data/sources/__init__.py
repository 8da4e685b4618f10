"""Corpora as pairs of lines, or lines of one language, from any file, in constant memory."""
