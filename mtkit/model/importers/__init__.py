"""Models from the forms of other programs.

transformers.py  a language model from a folder of transformers' GPT or BERT
"""
