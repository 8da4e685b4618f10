"""A network from its config: the one site that builds any."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

from torch.overrides import TorchFunctionMode

from mtkit.model.config import ModelConfig
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model

_DRAWING = ("normal_", "uniform_", "xavier_uniform_", "kaiming_uniform_")
"""Functions of torch.nn.init and of tensors that draw initial weights."""


def build(config: ModelConfig, *, has_initial_weights: bool = True) -> EncoderDecoder:
    """Returns the network of a config, in fp32 on the CPU.

    Args:
        config: The model's config.
        has_initial_weights: Whether weights are drawn, from torch's generator. Where others are
            loaded next they needn't be: they hold anything, and the generator stays as it was.
    """
    with nullcontext() if has_initial_weights else _WithoutDrawing():
        match config.model:
            case Model():
                return EncoderDecoder(config.model, *config.vocab_sizes)


class _WithoutDrawing(TorchFunctionMode):
    """Skips the functions that draw initial weights."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = {**(kwargs or {})}
        if func.__name__ in _DRAWING:
            return args[0] if args else named["tensor"]
        return func(*args, **named)
