"""What a search asks of a model."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.model import EncoderDecoder


@runtime_checkable
class StepModel(Protocol):
    """A model that has read a batch of sources and says, step by step, what may come next.

    Rows are sentence by sentence; every sentence has the same number of them, which may change from
    one `select_rows` to the next.
    """

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Returns the next token's natural log-probabilities, in fp32.

        The tensor is the caller's to write into.

        Args:
            tokens: Each hypothesis's newest token, `<s>` first.
        """
        ...

    def select_rows(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Keeps these hypotheses, in this order; one may be named several times."""
        ...

    def select_sentences(self, sentences: Int[Tensor, " new_batch"]) -> None:
        """Keeps these sentences, in this order; `select_rows` is called to match."""
        ...


class EncoderDecoderSteps:
    """An encoder-decoder that has encoded a batch and keeps what its decoder has computed.

    Args:
        model: The network, in evaluation mode.
        source_tokens: Source pieces, closed by `</s>`, padded at the end.
        source_is_token: False at padding.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source_tokens: Int[Tensor, "batch src_len"],
        source_is_token: Bool[Tensor, "batch src_len"],
    ) -> None:
        self._model = model
        self._cache = model.start(source_tokens, source_is_token)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Returns the next token's natural log-probabilities, in fp32."""
        return torch.log_softmax(self._model.step(tokens, self._cache), dim=-1, dtype=torch.float32)

    def select_rows(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Keeps these hypotheses, in this order."""
        self._cache.select_rows(rows)

    def select_sentences(self, sentences: Int[Tensor, " new_batch"]) -> None:
        """Keeps these sentences, in this order."""
        self._cache.select_sentences(sentences)
