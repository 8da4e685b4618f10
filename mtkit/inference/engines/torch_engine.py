"""PyTorch as the engine, on a CPU or one GPU."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mtkit.data.batches.collate import pad
from mtkit.data.batches.ragged import Ragged
from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.greedy import greedy_search
from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.inference.search.scoring import score_targets
from mtkit.inference.search.step_model import EncoderDecoderSteps
from mtkit.model import EncoderDecoder
from mtkit.recipe.inference import Inference


class TorchEngine:
    """Searches with a network in memory.

    Args:
        model: The network; between calls it may be trained on.
        device: Where the network's weights are.
    """

    def __init__(self, model: EncoderDecoder, device: torch.device | str) -> None:
        self._model = model
        self._device = torch.device(device)

    @property
    def max_source_tokens(self) -> int | None:
        """The number of learned positions; None where positions have no end."""
        settings = self._model.model
        return settings.max_positions if settings.positions == "learned" else None

    def search(
        self, source_batch: Sequence[Sequence[int]], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first; one where `beam_size` is 1."""
        limits = [len(source) + settings.max_extra_tokens for source in source_batch]
        if self.max_source_tokens is not None:
            limits = [min(limit, self.max_source_tokens) for limit in limits]
        max_lengths = torch.tensor(limits, device=self._device)
        with _evaluating(self._model):
            steps = EncoderDecoderSteps(self._model, *self._pad(source_batch))
            if settings.beam_size == 1:
                return greedy_search(steps, max_lengths, settings.length_penalty)
            return beam_search(
                steps,
                max_lengths,
                beam_size=settings.beam_size,
                penalty=settings.length_penalty,
            )

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[float]:
        """Returns the log-probability of each given target, as `search` would have found it."""
        with _evaluating(self._model):
            scores: list[float] = score_targets(
                self._model, *self._pad(source_batch), *self._pad(target_batch)
            ).tolist()
        return scores

    def _pad(self, batch: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Returns token lists as one tensor, padded at the end, and which of it are tokens."""
        tokens, is_token = pad(Ragged.of(batch))
        return (
            torch.from_numpy(tokens).to(self._device),
            torch.from_numpy(is_token).to(self._device),
        )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Leaves every part of the model in the mode, training or evaluation, that it was in."""
    in_training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        # In torch.inference_mode a table of positions that grows here couldn't be written to again
        # when training goes on; no_grad is as fast (docs/log.md).
        with torch.no_grad():
            yield
    finally:
        for part in in_training:
            part.training = True
