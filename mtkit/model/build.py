"""Builds networks from their configs; all networks are built here."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

from torch.overrides import TorchFunctionMode

from mtkit.model.config import ModelConfig
from mtkit.network import (
    CausalClassifier,
    CausalLanguageModel,
    EncoderDecoder,
    MaskedClassifier,
    MaskedLanguageModel,
    Network,
)

_INITIALIZERS = ("normal_", "uniform_", "xavier_uniform_", "kaiming_uniform_")
"""Functions of torch.nn.init and of tensors that draw initial weights."""


def build(config: ModelConfig, *, has_initial_weights: bool = True) -> Network:
    """Returns the network of a config, in fp32 on the CPU.

    Initial weights are drawn from torch's generator. Without them, for loading others
    next, the weights are arbitrary, and the generator doesn't advance.
    """
    with nullcontext() if has_initial_weights else _WithoutInitialization():
        match config.objective:
            case "causal-lm":
                return CausalLanguageModel(config.model, config.target_vocab_size)
            case "translation" if config.model.architecture == "decoder-only":
                return CausalLanguageModel(config.model, config.target_vocab_size)
            case "masked-lm":
                return MaskedLanguageModel(
                    config.model, config.target_vocab_size, next_sentence=config.next_sentence
                )
            case "classification":
                assert config.classifier is not None, "its validator says so"
                is_causal = config.classifier.kind == "causal-lm"
                classifier = CausalClassifier if is_causal else MaskedClassifier
                return classifier(
                    config.model, config.target_vocab_size, len(config.classifier.labels)
                )
            case _:
                return EncoderDecoder(config.model, *config.vocab_sizes)


class _WithoutInitialization(TorchFunctionMode):
    """Skips the functions that draw initial weights."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = {**(kwargs or {})}
        if func.__name__ in _INITIALIZERS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)
