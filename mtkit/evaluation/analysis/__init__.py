"""Compares systems by kind of sentence, by risk flag, and sentence by sentence."""
