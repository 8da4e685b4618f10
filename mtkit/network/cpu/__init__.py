"""Faster ways of a processor, each behind a door in the plain path beside it.

attention.py  attention among short sequences, with its gradient by hand
dropout.py    masks of two bytes a number
heads.py      heads copied between a row of tokens and padded grids
prepacked.py  products with weights laid out once, inference only
quantized.py  products of 8-bit integers, inference only
"""
