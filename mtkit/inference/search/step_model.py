"""Models as a search calls them, step by step."""

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout

SourceAttention = tuple[Float[Tensor, "batch beam src_len"], Bool[Tensor, "batch src_len"]]
"""Attention of each hypothesis's newest step to each source token; False at padding."""


@runtime_checkable
class StepModel(Protocol):
    """A model that has read a batch of sources and predicts the next token, step by step.

    Sentences have equal numbers of hypotheses: 1 at first, later as many as in the last `select`.
    """

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the next token's log-probabilities in fp32, which the caller may overwrite."""
        ...

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, in this order, and these hypotheses of each.

        `parents` are the indices of the hypotheses that the new ones continue, within their
        sentence; they may repeat.
        """
        ...

    def source_attention(self) -> SourceAttention:
        """The attention to the source, which sums to 1; only needed for a coverage penalty."""
        ...


class EncoderDecoderSteps:
    """An encoder-decoder that has encoded a batch and caches its decoder's states.

    The network is in evaluation mode. Sources end with `</s>`.

    Attributes:
        memory: The encoded sources, [batch, src_len, d_model]; None without `keeps_memory`.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source_tokens: Int[Tensor, "batch src_len"],
        source_layout: PaddedLayout,
        *,
        keeps_attention: bool = False,
        keeps_memory: bool = False,
    ) -> None:
        self._model = model
        memory, layout = model.encode_without_padding(source_tokens, source_layout)
        self.memory = layout.pad(memory) if keeps_memory else None
        self._cache = model.decoder.start(memory, layout)
        self._cache.keeps_attention = keeps_attention

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the next token's natural log-probabilities, in fp32."""
        return log_softmax(self._model.step(tokens, self._cache))

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and these hypotheses of each."""
        self._cache.select(sentences, parents)

    def source_attention(self) -> SourceAttention:
        """The attention of the decoder's last layer, averaged over its heads."""
        attention = self._cache.source_attention
        assert attention is not None, "read before the first step, or not requested"
        return attention, self._cache.source_is_token


class CausalSteps:
    """A causal language model that continues a batch of texts, each starting with `<s>`."""

    def __init__(
        self,
        model: CausalLanguageModel,
        texts: Int[Tensor, "batch length"],
        layout: PaddedLayout,
    ) -> None:
        self._model = model
        lengths_B = layout.is_token.sum(dim=1)
        # The first step reads the last token of each text.
        self._last_BW: Tensor | None = texts.gather(1, lengths_B[:, None] - 1)
        begun = torch.arange(texts.shape[1] - 1, device=texts.device) < lengths_B[:, None] - 1
        self._cache = (
            model.read(texts[:, :-1], PaddedLayout(begun))
            if begun.any()
            else model.start(len(texts), texts.device)
        )

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the next token's natural log-probabilities, in fp32."""
        newest = tokens if self._last_BW is None else self._last_BW
        self._last_BW = None
        return log_softmax(self._model.step(newest, self._cache))

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and these hypotheses of each."""
        if self._last_BW is not None:
            self._last_BW = self._last_BW[list(sentences)].gather(1, parents)
        self._cache.select(sentences, parents)

    def source_attention(self) -> SourceAttention:
        """Must not be called: there is no source, and a coverage penalty was rejected before."""
        raise AssertionError("a language model has no source")


class EnsembleSteps:
    """The mean of several models' probabilities; all share the batch and the target vocabulary."""

    def __init__(self, members: Sequence[StepModel]) -> None:
        self._members = members

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the natural logarithm of the members' mean probability of the next token."""
        return log_of_mean(torch.stack([member.step(tokens) for member in self._members]))

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and these hypotheses of each."""
        for member in self._members:
            member.select(sentences, parents)

    def source_attention(self) -> SourceAttention:
        """The members' mean attention."""
        found, is_token = zip(*(each.source_attention() for each in self._members), strict=True)
        return torch.stack(found).mean(dim=0), is_token[0]


class FusedSteps:
    """A model and a weighted language model without a source (arXiv 1503.03535, section 4.1)."""

    def __init__(self, model: StepModel, language_model: StepModel, weight: float) -> None:
        self._model, self._language_model, self._weight = model, language_model, weight

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the weighted sum of both log-probabilities, which is at most 0."""
        log_probs = self._model.step(tokens)
        return log_probs.add_(self._language_model.step(tokens), alpha=self._weight)

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and these hypotheses of each."""
        self._model.select(sentences, parents)
        self._language_model.select(sentences, parents)

    def source_attention(self) -> SourceAttention:
        """The model's attention."""
        return self._model.source_attention()


def log_softmax(logits: Float[Tensor, "*shape vocab"]) -> Float[Tensor, "*shape vocab"]:
    """Returns log-probabilities in fp32; overwrites the logits."""
    if logits.dtype != torch.float32:
        return torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    # In place: fresh memory of that size costs as much as the softmax (docs/log.md).
    return torch.log_softmax(logits, dim=-1, out=logits)


def log_of_mean(log_probs: Float[Tensor, "members *shape"]) -> Float[Tensor, "*shape"]:
    """Returns the natural logarithm of the members' mean probability."""
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))
