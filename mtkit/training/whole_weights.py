"""Completes the weights of checkpoints, which with LoRA hold only a part."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from mtkit.errors import MtkitError
from mtkit.model.adapter import merge
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, is_adapter
from mtkit.model.digest import digest_model
from mtkit.model.parameters import Shape, list_adapted, list_learned_shapes
from mtkit.model.weights import distinct_weights
from mtkit.network import Network
from mtkit.network.low_rank import AdaptedLinear
from mtkit.recipe.lora import Lora
from mtkit.recipe.training import Training
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.training.start_from import start_from


def adapt(model: Network, config: ModelConfig, lora: Lora) -> None:
    """Adds LoRA's low-rank matrices, whose product is 0, to a network.

    They are drawn from torch's generator, on the CPU.
    """
    for weight, maps in list_adapted(config.list_shapes(), config.model, lora).items():
        path, _, name = weight.removesuffix(".weight").rpartition(".")
        part = model.get_submodule(path)
        linear = part.get_submodule(name)
        assert isinstance(linear, torch.nn.Linear)
        rows = {each: (one.first, one.last) for each, one in maps.items()}
        adapted = AdaptedLinear(
            linear, rows, rank=lora.rank, scale=lora.scale, dropout=lora.dropout
        )
        setattr(part, name, adapted)


def find_base(training: Training) -> Path:
    """Returns the model folder that LoRA updates; an adapter's base must not be an adapter."""
    lora, settings = training.lora, training.start_from
    assert lora is not None
    assert settings is not None
    assert settings.model is not None, "a recipe without it is rejected"
    if lora.release == "adapter" and is_adapter(settings.model):
        raise MtkitError(
            f"{settings.model} is an adapter, and one can't be the base of another",
            "--set training.lora.release=merged",
        )
    return settings.model


def list_checkpoint_shapes(config: ModelConfig, lora: Lora | None) -> dict[str, Shape]:
    """Returns the shape of each weight in the checkpoints of a run."""
    shapes = config.list_shapes()
    return shapes if lora is None else list_learned_shapes(shapes, config.model, lora)


class WholeWeights:
    """Completes weights of one run's checkpoints; LoRA's base is read only once."""

    def __init__(
        self, config: ModelConfig, training: Training, tokenizer: SubwordTokenizer, *, seed: int
    ) -> None:
        self._config, self._training = config, training
        self._tokenizer, self._seed = tokenizer, seed
        self._base: dict[str, Tensor] = {}

    def of(self, weights: Mapping[str, Tensor], base_digest: str) -> Mapping[str, Tensor]:
        """Returns all weights of a network, from those of a checkpoint or of a mean.

        If the model that LoRA updates is missing or has changed, that is an error.
        """
        lora = self._training.lora
        if lora is None:
            return weights
        if not self._base:
            self._read_base(base_digest)
        return merge(self._base, weights, self._config.list_shapes(), self._config.model, lora)

    def _read_base(self, base_digest: str) -> None:
        folder = find_base(self._training)
        found = digest_model(folder)
        if found != base_digest:
            raise MtkitError(
                f"{folder} isn't the model that the run started from (training.lora)",
                "restore that model",
            )
        # As in training: pieces that the base lacks have vectors of their own.
        torch.manual_seed(self._seed)
        model = build(self._config)
        start_from(self._training, self._config, model, self._tokenizer, reports=False)
        named = distinct_weights(model)
        self._base = {name: weight.detach() for name, weight in named.items()}
