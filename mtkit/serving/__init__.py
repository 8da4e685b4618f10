"""HTTP around inference and documents.

Only `worker_main.py` opens a model; the parent loads no torch, and works on no text itself.
"""
