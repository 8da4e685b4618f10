"""Exports models to the formats of other programs."""
