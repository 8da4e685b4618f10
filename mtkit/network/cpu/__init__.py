"""Faster CPU code, each behind a switch in the plain code next to it."""
