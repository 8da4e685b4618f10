"""Streams around a translator."""
