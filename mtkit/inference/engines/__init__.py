"""Engines that run the network; translate.py opens the one in the settings.

engine.py              the interface of an engine
features.py            what a translation may need of an engine, and which engine has it
torch_engine.py        PyTorch, on a CPU or one GPU
run_search.py          which search settings ask for, and what outputs must be
torch_aligner.py       attention that alignments are read from, by PyTorch
open_torch_engine.py   a model folder opened for it: device, precision, processes
parallel_engine.py     an engine in several processes
aligning.py            inputs and rows of the attention that alignments are read from
short_lists.py         a table of likely translations, and the tokens that a batch may need
ctranslate2_engine.py  CTranslate2, on what `mtkit export` made
ctranslate2_search.py  its search, made to find what ours finds
"""
