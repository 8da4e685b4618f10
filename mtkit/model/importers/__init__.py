"""Imports models from the formats of other programs."""
