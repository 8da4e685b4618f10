"""Constituency trees: read, simplified, turned into symbols to learn, and made of symbols again."""
