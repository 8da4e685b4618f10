"""The C++ engine of translation on a CPU, and its Python binding; without PyTorch.

`cpp/` has the source, which `hatch_build.py` compiles for each kind of CPU; `library.py` loads it;
`network.py` gives it a network's weights, and `search.py` calls its search.
"""
