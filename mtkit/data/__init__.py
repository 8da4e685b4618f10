"""Text in, batches out; numpy throughout, torch in collate.py alone.

corpora.py      pairs of lines out of files, data sets and the phrasebook, with faults by file:line
cleaning.py     which pairs are left out, and how many by what reason
tokenizer.py    text to subword tokens and back (SentencePiece); the special tokens' ids
token_store.py  tokens on disk, memory-mapped
batching.py     which sentences make up each update: a pure function of seed and epoch
collate.py      a list of sentences to padded tensors
phrasebook/     the embedded English-German corpus
prepare.py      the front door: corpora to a workspace's data
"""
