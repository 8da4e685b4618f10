"""Faster ways of a processor, each behind a door in the plain path beside it."""
