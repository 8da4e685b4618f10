"""Constituency trees: reads, simplifies, linearises and restores them."""
