"""Attention reports: a page, a picture, and numbers."""
