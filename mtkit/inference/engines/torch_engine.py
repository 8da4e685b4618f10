"""PyTorch as the engine, on a CPU or one GPU."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.inference.engines.engine import EncodedSource, Engine, find_limit
from mtkit.inference.engines.parallel_engine import open_processes
from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.greedy import greedy_search
from mtkit.inference.search.rules import OutputRules
from mtkit.inference.search.sampling import sample
from mtkit.inference.search.scoring import score_targets
from mtkit.inference.search.step_model import (
    EncoderDecoderSteps,
    EnsembleSteps,
    StepModel,
    log_of_mean,
)
from mtkit.inference.translation import Hypothesis
from mtkit.model.folder import load_model_folder
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cpu.prepacked import gains_by_prepacking
from mtkit.network.device import find_device, limit_threads, send, suit_precision
from mtkit.network.precision import copy_in_bfloat16
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.precision import Precision
from mtkit.text.token_ids import PAD

_MIN_WIDTH_IN_BFLOAT16 = 256
"""A step's few rows times matrices narrower than this gain nothing on a CPU (docs/log.md)."""


class TorchEngine:
    """Searches with a network in memory, or with several that speak together; a batch at a time.

    Args:
        model: The network, or those of an ensemble; between calls it may be trained on.
        device: Where its weights are.

    Attributes:
        max_tokens: The fewest learned positions of a model; None where positions have no end.
        batches_at_once: One: what it is given it searches together.
    """

    batches_at_once = 1

    def __init__(
        self, model: EncoderDecoder | Sequence[EncoderDecoder], device: torch.device | str
    ) -> None:
        self._models = [model] if isinstance(model, EncoderDecoder) else list(model)
        self._device = torch.device(device)
        # A network has one mode, training or evaluation, and tables that grow.
        self._lock = threading.Lock()
        sizes = [model.model for model in self._models]
        self.max_tokens = min(
            (each.max_positions for each in sizes if each.positions == "learned"), default=None
        )

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first."""
        limits = torch.tensor(
            [find_limit(source, settings, self.max_tokens) for source in sources],
            device=self._device,
        )
        rules = OutputRules(
            [source.prefix for source in sources],
            min_length=settings.min_length,
            no_repeat_ngram=settings.no_repeat_ngram,
        )
        with self._lock, _evaluating(self._models):
            model = self._read([source.tokens for source in sources], settings)
            if settings.sampling is not None:
                return sample(
                    model,
                    limits,
                    sampling=settings.sampling,
                    num_samples=settings.n_best,
                    draws=[source.draw for source in sources],
                    penalty=settings.length_penalty,
                    rules=rules,
                )
            if settings.beam_size == 1:
                return greedy_search(model, limits, settings.length_penalty, rules)
            return beam_search(
                model,
                limits,
                beam_size=settings.beam_size,
                n_best=settings.n_best,
                penalty=settings.length_penalty,
                coverage=settings.coverage_penalty,
                stop_margin=settings.stop_margin,
                rules=rules,
            )

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the log-probability of each token of each target, as `search` would have it."""
        sources, targets = self._pad(source_batch), self._pad(target_batch)
        with self._lock, _evaluating(self._models):
            log_probs = torch.stack(
                [score_targets(model, *sources, targets[0]) for model in self._models]
            )
            means = log_of_mean(log_probs)
        return [
            row[: len(target)] for row, target in zip(means.tolist(), target_batch, strict=True)
        ]

    def _read(self, source_batch: Sequence[Sequence[int]], settings: Inference) -> StepModel:
        tokens, layout = self._pad(source_batch)
        members = [
            EncoderDecoderSteps(
                model, tokens, layout, keeps_attention=settings.coverage_penalty > 0.0
            )
            for model in self._models
        ]
        return members[0] if len(members) == 1 else EnsembleSteps(members)

    def _pad(self, batch: Sequence[Sequence[int]]) -> tuple[Tensor, PaddedLayout]:
        tokens, layout = pad(batch)
        return send(tokens, self._device), layout.to(self._device)


def pad(batch: Sequence[Sequence[int]]) -> tuple[Tensor, PaddedLayout]:
    """Returns sentences padded at the end, int64 [batch, longest], and where they stand."""
    lengths = np.array([len(sentence) for sentence in batch])
    is_token = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(is_token.shape, PAD, dtype=np.int64)
    tokens[is_token] = np.fromiter(chain.from_iterable(batch), np.int64, count=lengths.sum())
    return torch.from_numpy(tokens), PaddedLayout(torch.from_numpy(is_token))


def open_torch_engine(folders: Sequence[Path], settings: Inference, device: str) -> Engine:
    """Returns an engine with the model in a folder, or those of an ensemble.

    Raises:
        MtkitError: There is no such device; there is no model, or it is damaged.
    """
    limit_threads()
    chosen = find_device(device)
    models = [load_model_folder(folder, device=chosen).model for folder in folders]
    engine = TorchEngine([make_ready(model, settings, chosen) for model in models], chosen)
    return open_processes(engine, chosen, settings.processes)


def make_ready(model: EncoderDecoder, settings: Inference, device: torch.device) -> EncoderDecoder:
    """Returns a network on `device` as it is quickest to search with; the one given is used up."""
    precision = choose_precision(settings, device, model.model)
    ready = copy_in_bfloat16(model) if precision == "bf16" else model
    if gains_by_prepacking(device):
        ready.prepack()
    return ready


def choose_precision(settings: Inference, device: torch.device, model: Model) -> Precision:
    """Returns the precision that is asked for, or for `auto` what a device is quickest in."""
    if settings.precision != "auto":
        return settings.precision
    if device.type == "cpu" and model.d_model < _MIN_WIDTH_IN_BFLOAT16:
        return "fp32"
    return suit_precision(device)


@contextmanager
def _evaluating(models: Sequence[nn.Module]) -> Iterator[None]:
    """Has models in evaluation mode, and puts every part back into the mode that it was in."""
    in_training = [part for model in models for part in model.modules() if part.training]
    for model in models:
        model.eval()
    try:
        # In torch.inference_mode a table of positions that grows here couldn't be written to again
        # when training resumes; no_grad is as fast (docs/log.md).
        with torch.no_grad():
            yield
    finally:
        for part in in_training:
            part.training = True
