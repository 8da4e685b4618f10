"""Translates text with a model, step by step (line_pipeline.py).

An engine's library is loaded with the engine: this file, translate.py and open_translator.py import
neither torch nor CTranslate2.
"""
