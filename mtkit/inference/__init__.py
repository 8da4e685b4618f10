"""Translates text with a model, step by step (line_pipeline.py).

PyTorch is loaded with its engine: this file, translator.py and open_translator.py don't import it.
"""
