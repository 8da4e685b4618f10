"""What a model is: a config, weights, a folder that holds both.

config.py       all that a model is built from but its weights; decoding defaults; both on disk
alignment_head.py  what tells alignments
parameters.py   the one map of a network's weights: names, shapes, parts
build.py        a network from its config
weights.py      the codec of weights: packed, written, read, checked before memory is taken
folder.py       a model folder, saved whole and loaded
adapter.py      what LoRA learned, as a folder beside the model that it updates
digest.py       which model a folder holds, and whether it stays while it is read
card.py         the README.md in the folder: its sections, read and written
translator_cards.py  the cards of translators
language_model_cards.py  those of language models and classifiers
trim.py         a model with fewer pieces
costs.py        operations and memory that a network takes
transformers_config.py  configs of transformers' GPT and BERT
translator_config.py  configs of public translators
transformers_names.py   a language model's weights by transformers' names
translator_names.py     a translator's weights by transformers' names
importers/      a model from the forms of other programs
exporters/      a model in the forms of other programs
"""
