"""Attention to look at: a page, a picture, and numbers."""
