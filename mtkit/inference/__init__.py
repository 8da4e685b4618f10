"""A model and text in, translations out.

translate.py     the front door: lines of text to lines of text
model_folder.py  a trained model as a portable folder, and weights in and out of a network
model_card.py    that folder's README.md
search/          how an output is found: greedy, beam; a given one scored
engines/         what runs the network
"""

from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.model_folder import (
    LoadedModel,
    load_model_folder,
    load_weights,
    pack_weights,
    read_settings,
    read_weights,
    save_model_folder,
    write_scores,
)
from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.inference.translate import Translator, translate_stream

__all__ = [
    "Engine",
    "Hypothesis",
    "LoadedModel",
    "TorchEngine",
    "Translator",
    "load_model_folder",
    "load_weights",
    "pack_weights",
    "read_settings",
    "read_weights",
    "save_model_folder",
    "translate_stream",
    "write_scores",
]
