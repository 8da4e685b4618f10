"""What runs the network.

engine.py               what a translator asks of an engine
torch_engine.py         PyTorch, on a CPU or one GPU
ctranslate2_engine.py   CTranslate2, on what `mtkit export` made
ctranslate2_library.py  its package: found, and told what to run on
ctranslate2_files.py    what an export adds to its files
ctranslate2_weights.py  its file of weights, looked through before the library reads it
"""
