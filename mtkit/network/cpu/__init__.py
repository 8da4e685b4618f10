"""Faster ways of a processor, each behind a door in the plain path beside it.

attention.py  attention among short sequences, with its gradient by hand
compiled.py   the library of C++ kernels (kernels/), and linear maps by it, inference only
compiled_translator.py  a translator's passes by it: an encoder, a step of a decoder
dropout.py    masks of two bytes a number
heads.py      heads copied between a row of tokens and padded grids
integer_products.py  products of 8-bit integers, a class for each kernel
prepacked.py  products with weights laid out once, inference only
quantized.py  linear maps of 8-bit integers, and which kernel a processor takes, inference only
"""
