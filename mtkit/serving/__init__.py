"""HTTP around inference and documents.

Only `worker_main.py` opens a model; the parent loads no torch, and itself works on short plain
texts and small bodies alone.
"""
