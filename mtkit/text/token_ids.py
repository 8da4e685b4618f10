"""Ids of the special tokens, in every vocabulary that mtkit uses; defined here and nowhere else."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
"""Their pieces, by id."""
