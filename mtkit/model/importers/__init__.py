"""Models from the forms of other programs.

transformers.py     a language model from a folder of transformers' GPT or BERT
source_folder.py    a folder of a public model, here or on the Hugging Face hub
foreign_weights.py  weights that another program wrote, read one at a time
licence.py          the licence that a model's card tells
generation.py       transformers' decoding settings in mtkit's terms
reading.py          what is alike in reading all kinds of translators
marian.py           Marian's translators, all of OPUS-MT, and Pegasus, but for their weights
marian_config.py    their networks
m2m100.py           M2M100 and NLLB-200, but for their weights
m2m100_config.py    their networks
fairseq_languages.py
                    codes of their languages, in the order of their ids
translator.py       a public translator's weights, and its model folder
"""
