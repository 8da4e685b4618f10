"""HTTP around inference and documents.

Only `worker_main.py` opens a model. The parent loads no torch, and itself only handles short plain
texts and small bodies.
"""
