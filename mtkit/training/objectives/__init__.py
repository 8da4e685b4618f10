"""Losses that training minimises, with their batches and validation.

objective.py      the one class of objective: batches, the loss of one, a validator
stored.py         the batches of all of them, but for how examples are read and collated
translation.py    label-smoothed cross entropy of the target, given the source
decoder_only.py   the same, by a decoder that reads source and target as one text
causal_lm.py      cross entropy of each token of a text, given those before it
masked_lm.py      cross entropy of hidden tokens, given all others; whether a segment follows
denoising.py      batches for a translator's loss: a text, given it with hidden spans
classification.py  cross entropy of a text's label, given the text
passes.py         how updates are cut into passes, whatever is learned
"""
