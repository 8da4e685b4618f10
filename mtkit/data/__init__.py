"""Text in, batches out; numpy throughout, torch in batches/collate.py alone.

prepare.py            the front door: corpora to a workspace's data, stage by stage
preparation/          what the stages do, and the report on them
prepared.py           those data opened again, and whether they are up to date

sources/              corpora of every kind, read in blocks, with faults by file and line
augmentation/         training examples made of others
cleaning/             which pairs are dropped, and why
selection/            which of the rest is like one's own text, by two language models
phrasebook/           the embedded English-German corpus

tokenizer_choice.py   which tokenizer a recipe gets: another model's, one that it names, or its own
lexical_table.py      which target pieces a source piece is translated by, for short lists
normalization.py      how a recipe's tokenizer normalises, and what a reader should know of it
subword_sampling.py   another segmentation of each sentence in each epoch

batches/              which sentences make up each update, and their tokens as tensors
"""
