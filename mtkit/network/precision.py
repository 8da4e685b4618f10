"""A network in another arithmetic than the one it learned in."""

import copy
from typing import TypeVar

import torch
from torch import nn

_Network = TypeVar("_Network", bound=nn.Module)


def copy_in_bfloat16(model: _Network) -> _Network:
    """Returns a copy of a network with its weights in bfloat16; buffers stay as they are."""
    copied = copy.deepcopy(model)
    for weight in copied.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return copied
