"""Opens model folders for PyTorch: device, precision, processes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from mtkit.console import warn
from mtkit.engine.library import choose_library
from mtkit.engine.network import EngineNetwork
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.fusion import check_language_model
from mtkit.inference.engines.native_engine import (
    NativeEngine,
    choose_native_precision,
    read_threads,
)
from mtkit.inference.engines.torch_aligner import GeneratingNetwork
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.model.alignment_head import default_head, read_alignment_head
from mtkit.model.config import ModelConfig, read_config
from mtkit.model.digest import reading
from mtkit.model.folder import load_model_folder
from mtkit.model.weights import distinct_weights
from mtkit.network import CausalLanguageModel, EncoderDecoder, Network
from mtkit.network.cpu.quantized import is_quantized
from mtkit.network.device import choose_fastest_precision, find_device, limit_threads
from mtkit.network.projecting import in_precision
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.precision import MIN_WIDTH_IN_BFLOAT16, InferencePrecision

Placed = TypeVar("Placed", bound=nn.Module)


def open_torch_engine(folders: Sequence[Path], settings: Inference, device: str) -> Engine:
    """Returns an engine for one model folder, or for an ensemble."""
    limit_threads()
    chosen = find_device(device)
    loaded = [
        load_model_folder(
            folder,
            device=chosen,
            in_int8=choose_precision(settings, chosen, read_config(folder).model) == "int8",
        )
        for folder in folders
    ]
    models = [check_generates(each.model, each.config) for each in loaded]
    language_model = _open_language_model(settings, folders[0], loaded[0].config, chosen)
    heads = [
        read_alignment_head(folder, each.config.model)
        for folder, each in zip(folders, loaded, strict=True)
    ]
    return TorchEngine(
        [make_ready(model, settings, chosen) for model in models],
        chosen,
        language_model=language_model,
        alignment_heads=heads,
    )


def engine_of_network(
    network: GeneratingNetwork,
    settings: Inference,
    device: torch.device,
    *,
    bounds: OutputBounds = NO_BOUNDS,
) -> Engine:
    """Returns the engine for a network in memory, which may be trained after its last search."""
    precision = choose_native_precision([network.model], settings, device.type)
    if precision is None:
        return TorchEngine(make_ready(network, settings, device), device, bounds=bounds)
    weights = distinct_weights(network)
    native = EngineNetwork(
        network.model,
        lambda name: weights[name].detach().float().contiguous().numpy(),
        precision,
        has_source=isinstance(network, EncoderDecoder),
    )
    return NativeEngine(
        [native],
        [network.model],
        [default_head(network.model)],
        num_threads=read_threads(settings) or torch.get_num_threads(),
        bounds=bounds,
    )


def check_generates(model: Network, config: ModelConfig) -> GeneratingNetwork:
    """Returns a network that emits text; raises an MtkitError for another one."""
    if isinstance(model, GeneratingNetwork):
        return model
    if config.objective == "classification":
        raise MtkitError(
            f"{config.recipe} is a classifier, which doesn't generate text",
            "label lines with it: mtkit translate, or mtkit.LineClassifier in Python",
        )
    raise MtkitError(
        f"{config.recipe} is a masked language model, which doesn't generate text",
        "start a translator's encoder from it (training.start_from), or score text with it",
    )


def _open_language_model(
    settings: Inference, folder: Path, config: ModelConfig, device: torch.device
) -> CausalLanguageModel | None:
    """Returns the language model of `inference.fusion`, if it is set."""
    if settings.fusion is None:
        return None
    with reading(settings.fusion.model):
        check_language_model(settings, folder, config)
        opened = load_model_folder(settings.fusion.model, device=device)
    assert isinstance(opened.model, CausalLanguageModel), "checked"
    ready = make_ready(opened.model, settings, device)
    assert isinstance(ready, CausalLanguageModel)
    return ready


def make_ready(
    model: GeneratingNetwork, settings: Inference, device: torch.device
) -> GeneratingNetwork:
    """Returns a network in its precision on `device`; don't use the given one again."""
    precision = choose_precision(settings, device, model.model)
    if precision != "int8":
        return in_precision(model, precision)
    if choose_library() is None:
        warn(
            "no int8 kernel is compiled for this CPU: int8 saves no time here (inference.precision)"
        )
    if not is_quantized(model):
        model.quantize()
    return model


def place_network(
    network: Placed, settings: Inference, device: str, model: Model
) -> tuple[Placed, torch.device]:
    """Returns a network for inference, which replaces the given one, and its device."""
    found = find_device(device)
    limit_threads()
    precision = choose_precision(settings, found, model)
    return in_precision(network.to(found), precision).eval(), found


def choose_precision(settings: Inference, device: torch.device, model: Model) -> InferencePrecision:
    """Returns the requested precision; for `auto` the fastest on the device."""
    if settings.precision == "int8" and device.type != "cpu":
        raise MtkitError(
            f'inference.precision = "int8" isn\'t supported on {device.type}',
            "--device cpu, or --set inference.precision=auto",
        )
    if settings.precision != "auto":
        return settings.precision
    is_narrow = device.type == "cpu" and model.d_model < MIN_WIDTH_IN_BFLOAT16
    return "fp32" if is_narrow else choose_fastest_precision(device)
