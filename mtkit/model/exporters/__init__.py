"""Models in the forms of other programs.

ctranslate2.py          a network's weights as CTranslate2's own files
ctranslate2_names.py    its weights by CTranslate2's names
ctranslate2_weights.py  a file of such, checked before the library reads it
ctranslate2_files.py    the folder of an export: its files, and what they say of it
ctranslate2_library.py  the package itself, its devices and threads

translator.py           a translator as a folder of transformers
written_translator.py   what all of these have in common: keys of their settings
marian.py               as Marian, or Pegasus
m2m100.py               as M2M100 or NLLB, with a piece for each language
m2m100_tokenizer.py     the files of their tokenizers
translator_rows.py      the rows that its tokens get in Marian's form
residual_order.py       a network's dimensions in another order

argos.py                a translator as a package of Argos Translate

transformers.py         a language model as a folder of transformers' GPT or BERT
"""
