"""Several checkpoints become one model.

average.py       the front door of `mtkit average`: a mean, or what does best, to `model/`
candidates.py    single checkpoints and sets to take the mean of, chosen and listed
mean.py          the mean of weights, a file at a time
measuring.py     weights measured on the development set, a mean beside the best single checkpoint
record.py        the model's entry in the manifest and on the card
"""
