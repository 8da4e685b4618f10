"""Finds the units of each format."""
