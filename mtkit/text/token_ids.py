"""Ids of the special tokens in all of mtkit's vocabularies; defined only here."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
"""Their pieces, by id."""

MASK_PIECE = "<mask>"
"""A masked token in a masked language model's input: a symbol of its vocabulary."""

CLOSING_PIECES = ("<delimiter>", "<extract>")
"""The pieces that close the first text of a pair, and a causal classifier's whole input."""
