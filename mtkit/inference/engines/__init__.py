"""What runs the network.

engine.py                what a translator asks of an engine
open_engine.py           the front door: the engine that settings name
batched_search.py        however many sentences, searched in batches
torch_engine.py          PyTorch, on a CPU or one GPU
parallel_engine.py       an engine in several processes
ctranslate2_engine.py    CTranslate2, on what `mtkit export` made
ctranslate2_model.py     such a model in memory, with the names of its tokens
ctranslate2_search.py    its search, had to find what ours finds
ctranslate2_coverage.py  the penalty for what an output leaves out
"""
