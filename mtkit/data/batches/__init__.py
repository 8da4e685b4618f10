"""Which sentences make up each update, and their tokens as tensors.

ragged.py         sentences of unequal length in one array
token_store.py    tokens on disk, memory-mapped
text_blocks.py    text in one language: blocks, and the document that each is of
length_order.py   a store's sentences by length, on disk
permutation.py    a shuffle that takes no memory
epoch.py          the sentences of each update: a pure function of weights, seed and epoch
micro_batches.py  how an update is cut into what passes through the model at once
updates.py        the updates of a training, in order, cut and loaded ahead
labelled_store.py labelled texts: tokens, and the number of each one's label
segments.py       the two segments of a masked language model's input, drawn in each epoch
masking.py        its hidden tokens, likewise
infilling.py      a denoising model's hidden spans, likewise
collate.py        sentences to tensors and their layouts; needs torch
joined_texts.py   texts to be labelled as tokens
examples.py       texts to be labelled as tokens, and as tensors; needs torch
"""
