"""Attention to look at: a page, a picture, and numbers.

page.py       an HTML page that needs nothing else, to click through
picture.py    a PNG for a paper
numbers.py    all weights as JSON or safetensors
"""
