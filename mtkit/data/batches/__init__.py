"""Which sentences make up each update, and their tokens as tensors.

ragged.py         sentences of unequal length in one array
token_store.py    tokens on disk, memory-mapped
length_order.py   a store's sentences by length, on disk
permutation.py    a shuffle that takes no memory
epoch.py          the sentences of each update: a pure function of weights, seed and epoch
micro_batches.py  how an update is cut into what passes through the model at once
updates.py        the updates of a training, in order, cut and loaded ahead
collate.py        sentences to tensors and their layouts; the only file of the room that needs torch
"""
