"""Model folders in the forms of other programs.

ctranslate2.py          a network's weights as CTranslate2's own files
ctranslate2_files.py    what an export adds to those files
ctranslate2_library.py  CTranslate2's package, found
ctranslate2_weights.py  its file of weights, checked before the library reads it
"""
