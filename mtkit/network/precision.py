"""A network in another arithmetic than the one it learned in."""

import copy
from typing import TypeVar

import torch
from torch import nn

from mtkit.network.cpu.quantized import quantize_linear_maps
from mtkit.recipe.precision import InferencePrecision

_Network = TypeVar("_Network", bound=nn.Module)


def copy_in_bfloat16(model: _Network) -> _Network:
    """Returns a copy of a network with its weights in bfloat16; buffers stay as they are."""
    copied = copy.deepcopy(model)
    for weight in copied.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return copied


def in_precision(model: _Network, precision: InferencePrecision) -> _Network:
    """Returns a network for inference in a precision; the one given is used up.

    In int8 the output projection, which isn't a linear map of its own, stays as it is.
    """
    match precision:
        case "fp32":
            return model
        case "bf16":
            return copy_in_bfloat16(model)
        case "int8":
            quantize_linear_maps(model)
            return model
