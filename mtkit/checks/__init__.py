"""Defects of a line or a pair: one detector each, without thresholds and without torch.

Cleaning, flags, risk flags and remarks call them, each with limits of its own.
"""
