"""What runs the network.

engine.py        what a translator asks of an engine
torch_engine.py  PyTorch, on a CPU or one GPU
"""

from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.torch_engine import TorchEngine

__all__ = ["Engine", "TorchEngine"]
