"""Ids of the special tokens, in every vocabulary that mtkit uses; defined here and nowhere else."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
"""Their pieces, by id."""

MASK_PIECE = "<mask>"
"""What stands for a hidden token in a masked language model's input: a symbol of its vocabulary."""

CLOSING_PIECES = ("<delimiter>", "<extract>")
"""What closes the first text of a pair and the whole input of a causal classifier: symbols of its
vocabulary."""
