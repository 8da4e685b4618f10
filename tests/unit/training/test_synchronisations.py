"""An update waits for a GPU once, to read its sums, its norm and the ranks' requests together."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mtkit
from mtkit.data.batches.collate import TranslationBatch, pack
from mtkit.data.batches.micro_batches import MicroBatch
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.updates import Update
from mtkit.network import EncoderDecoder
from mtkit.recipe import load_recipe
from mtkit.text.token_ids import EOS
from mtkit.training import distributed
from mtkit.training import update as update_module
from mtkit.training.distributed import ProcessGroup
from mtkit.training.graphs import RunPass
from mtkit.training.learner import Learner
from mtkit.training.loss import measure_translation
from mtkit.training.loss_scale import LossScale
from mtkit.training.update import Objective, RankRequests, Updater

META = torch.device("meta")
"""Tensors without contents: whoever reads one gets an error, as by a GPU they would wait."""
SETTINGS = (
    "training.moving_average.decay=0.9",
    "training.clipping.max_norm=1.0",
    "training.label_smoothing=0.1",
    "model.attention_dropout=0.0",
)
_SUMS = [1.0, 1.0, 0.0, 80.0, 0.0, 0.0, 0.0, 1.0]
"""What is read: loss, likelihood, divergence, drawn tokens, failures, requests, the norm."""


def _read(values: Tensor) -> list[float]:
    assert values.shape == (len(_SUMS),)
    return _SUMS


def _make_batch(*, is_filled: bool) -> TranslationBatch:
    side = Ragged(np.full(40, EOS), np.array([9, 8, 8, 8, 7]))
    batch = pack(side, side, [3, 2])
    return (batch.fill(12) if is_filled else batch).to(META)


def _record(_: Any, run: RunPass) -> SimpleNamespace:
    """Returns what runs a pass as it would be recorded."""
    return SimpleNamespace(run=lambda batch, scale: run(batch, torch.full((), scale, device=META)))


@pytest.mark.parametrize(
    ("precision", "is_filled"),
    [("fp32", False), ("bf16", False), ("bf16", True), ("fp16", False), ("fp16", True)],
)
@pytest.mark.parametrize("shard", [False, True])
def test_an_update_reads_once(monkeypatch, precision, *, is_filled: bool, shard: bool) -> None:
    recipe = load_recipe("phrasebook-en-de", [*SETTINGS, f"training.shard={str(shard).lower()}"])
    processes = ProcessGroup(0, 2 if shard else 1, META)
    for collective in ("_reduce_scatter", "_all_gather"):
        monkeypatch.setattr(distributed, collective, lambda *_: None)
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda _: None)
    sizes = {"d_model": 32, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2}
    with META:
        model = EncoderDecoder(recipe.model.model_copy(update=sizes), 30, 30)
    learner = Learner.of(model, recipe.training, precision=precision, processes=processes)
    assert (learner.shards is not None) == shard
    # A resumed training has read how many updates there were.
    learner.average.num_updates = 3
    reads: list[Tensor] = []
    monkeypatch.setattr(
        ProcessGroup, "read", lambda _, values: reads.append(values) or _read(values)
    )
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(update_module, "CapturedPasses", _record)
    passes = [MicroBatch(np.arange(5), 80, 80, 40)] * 2
    update = Update(
        epoch=0,
        position=0,
        is_last=False,
        limit=40,
        examples=np.arange(10),
        shares=[passes],
        micro_batches=passes,
        num_target_tokens=80,
        gather=lambda _: _make_batch(is_filled=is_filled),
        num_drawn_tokens=40 if shard else None,
    )
    measure = partial(measure_translation, label_smoothing=0.1)
    objective = Objective(learner, SimpleNamespace(), SimpleNamespace(), measure)
    key = "data.cleaning.max_tokens"
    updater = Updater(recipe.training, objective, learner, processes, seed=1, max_tokens_key=key)
    scale = LossScale.resume(0.0, 0) if precision == "fp16" else None
    for step in (1, 2):
        requests = RankRequests()
        outcome = updater.make(step, update, rate=0.1, requests=requests, loss_scale=scale)
        assert outcome.is_applied
        assert len(reads) == step


@pytest.mark.parametrize(
    "read",
    [
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor[0].item(),
        lambda tensor: bool(tensor[0]),
        lambda tensor: int(tensor[0]),
        lambda tensor: float(tensor[0]),
        lambda tensor: tensor.cpu(),
        lambda tensor: tensor.to("cpu"),
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.nonzero(),
        lambda tensor: tensor[tensor > 0],
    ],
)
def test_each_way_of_reading_fails_without_contents(read) -> None:
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
        read(torch.ones(3, device=META))


def test_only_these_wait_for_a_gpu_on_purpose() -> None:
    package = Path(mtkit.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if ".synchronize(" in path.read_text("utf-8")
    }
    # After a collective between updates, and for a search's results every eight steps.
    assert found == {"training/distributed.py", "inference/search/beam.py"}
