"""Decides which training pairs are dropped, and counts the reasons; numpy over blocks of pairs."""
