"""How often a search on a GPU waits for its results, counted on a CPU."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search import beam, sampling
from mtkit.network import CausalLanguageModel, EncoderDecoder
from mtkit.network.device import Sendable
from mtkit.recipe.inference import Inference, Sampling
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS

_READING = {
    *("tolist", "item", "__bool__", "__int__", "__float__", "__index__", "__contains__"),
    *("cpu", "numpy", "__array__", "nonzero", "masked_select", "unique", "equal", "allclose"),
}
"""Functions of torch that wait for a GPU."""
_NUM_STEPS = 48


class _OnCpu(Tensor):
    """A tensor that was copied from the GPU; what is computed from it is of this kind, too."""


class _Counting(TorchFunctionMode):
    """Counts functions that would wait for a GPU, by name."""

    def __init__(self) -> None:
        self.found = Counter[str]()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        name = function.__name__
        is_copied = any(issubclass(kind, _OnCpu) for kind in types)
        if not is_copied and (name in _READING or _selects(name, args)):
            self.found[name] += 1
        return function(*args, **(kwargs or {}))


def _selects(name: str, args: Any) -> bool:
    """Checks that a tensor is indexed by booleans, whose number must be known."""
    if name not in {"__getitem__", "__setitem__"}:
        return False
    indices = args[1] if isinstance(args[1], tuple) else (args[1],)
    return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)


@pytest.fixture
def counting(monkeypatch) -> _Counting:
    """Searches as on a GPU."""
    mode = _Counting()

    def read(groups):
        mode.found["read_together"] += 1
        return [tuple(each.as_subclass(_OnCpu) for each in group) for group in groups]

    for module in (beam, sampling):
        monkeypatch.setattr(module, "count_steps_at_once", lambda _: beam._STEPS_AT_ONCE)
        monkeypatch.setattr(module, "read_together", read)
    monkeypatch.setattr(beam, "top_k", beam.top_k_by_rank)
    # What is sent to a GPU is copied without waiting.
    monkeypatch.setattr(beam, "send", lambda tensor, _: tensor.as_subclass(Tensor))
    monkeypatch.setattr(Sendable, "to", lambda batch, _: batch)
    return mode


def _build(kind: type, **keys: str) -> EncoderDecoder | CausalLanguageModel:
    torch.manual_seed(4)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "d_ff": 16}
    section = Model(**sizes, num_heads=2, dropout=0.0, **keys)
    return kind(section, 30, 30) if kind is EncoderDecoder else kind(section, 30)


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        ({}, {"beam_size": 1}),
        ({}, {"beam_size": 4}),
        ({}, {"beam_size": 4, "n_best": 4, "coverage_penalty": 0.2}),
        ({"positions": "rotary", "norm": "pre"}, {"beam_size": 4}),
        ({"attention_window": 3}, {"beam_size": 4}),
        ({}, {"beam_size": 1, "n_best": 5, "sampling": Sampling(top_k=9, top_p=0.9, epsilon=0.01)}),
    ],
    ids=["greedy", "beam", "coverage", "rotary", "restricted", "samples"],
)
def test_a_search_waits_in_one_step_of_five_at_most(counting, keys, settings) -> None:
    engine = TorchEngine(_build(EncoderDecoder, **keys), "cpu")
    sources = [EncodedSource([*range(4, 4 + length), EOS]) for length in (3, 9, 5, 20)]
    bounds = {"min_length": _NUM_STEPS - 1, "max_extra_tokens": 60}
    with counting:
        found = engine.search(sources, Inference(**bounds, **settings))
    num_steps = max(len(each.token_ids) for hypotheses in found for each in hypotheses)
    assert num_steps >= _NUM_STEPS
    assert counting.found["read_together"] >= num_steps // beam._STEPS_AT_ONCE
    # Besides, the length limits and whether sources are padded are read before the first step.
    assert counting.found.total() <= 0.2 * num_steps, counting.found


def test_a_language_model_s_search_waits_as_rarely(counting) -> None:
    engine = TorchEngine(_build(CausalLanguageModel), "cpu")
    texts = [EncodedSource([*range(4, 4 + length)], is_text=True) for length in (3, 9, 5)]
    with counting:
        found = engine.search(texts, Inference(beam_size=4, min_length=47, max_extra_tokens=60))
    num_steps = max(len(each.token_ids) for hypotheses in found for each in hypotheses)
    assert num_steps >= _NUM_STEPS
    assert counting.found.total() <= 0.2 * num_steps, counting.found


@pytest.mark.parametrize(
    "settings",
    [{"beam_size": 1}, {"beam_size": 4}, {"beam_size": 1, "sampling": Sampling(top_k=9)}],
    ids=["greedy", "beam", "samples"],
)
def test_texts_that_have_ended_are_past_the_learned_positions(counting, settings) -> None:
    keys = {"positions": "learned", "max_positions": 30}
    engine = TorchEngine(_build(CausalLanguageModel, **keys), "cpu")
    # The longest ends within eight steps of the others.
    texts = [EncodedSource([*range(4, 4 + length)], is_text=True) for length in (24, 9, 23)]
    bounds = Inference(min_length=20, max_extra_tokens=60, **settings)
    together = engine.search(texts, bounds)
    alone = [engine.search([text], bounds)[0] for text in texts]
    assert [[each.token_ids for each in found] for found in together] == [
        [each.token_ids for each in found] for found in alone
    ]


def test_each_way_of_waiting_is_counted() -> None:
    ways = [
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor[0].item(),
        lambda tensor: bool(tensor[0]),
        lambda tensor: int(tensor[0]),
        lambda tensor: float(tensor[0]),
        lambda tensor: tensor.cpu(),
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.nonzero(),
        torch.nonzero,
        lambda tensor: tensor[tensor > 0],
    ]
    for number, way in enumerate(ways):
        mode, tensor = _Counting(), torch.ones(3)
        with mode:
            way(tensor)
            way(tensor.as_subclass(_OnCpu))
        assert mode.found.total() == 1, number
