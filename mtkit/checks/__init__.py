"""Detectors of defects in a line or a pair, each without thresholds and without torch.

Cleaning, flags, risk flags and remarks call them, each with its own limits.
"""
