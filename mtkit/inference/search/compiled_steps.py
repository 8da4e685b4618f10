"""A translator whose steps are compiled, as a search sees it."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mtkit.inference.search.step_model import StepModel
from mtkit.network import PaddedLayout
from mtkit.network.attention import WatchedHead
from mtkit.network.cpu.compiled_translator import CompiledTranslator


class CompiledSteps:
    """An encoder-decoder that has encoded a batch and keeps what its decoder has computed.

    Args:
        translator: The network, compiled.
        source_tokens: Source pieces, closed by `</s>`, padded at the end.
        source_layout: Where the sources stand.
        keeps_attention: Whether `source_attention` will be asked for.
        keeps_memory: Whether `memory` will be.
        watched: A head whose attention to the source `find_attention` tells.

    Attributes:
        watches: Whether a head is watched.
        memory: The encoded sources, [batch, src_len, d_model]; None where they aren't kept.
        vocab_size: Tokens of the target's vocabulary.
    """

    def __init__(
        self,
        translator: CompiledTranslator,
        source_tokens: Int[Tensor, "batch src_len"],
        source_layout: PaddedLayout,
        *,
        keeps_attention: bool = False,
        keeps_memory: bool = False,
        watched: WatchedHead | None = None,
    ) -> None:
        self.watches = watched is not None
        self._is_token_BS = source_layout.is_token
        lengths_B = self._is_token_BS.sum(dim=1)
        starts = torch.cat((lengths_B.new_zeros(1), lengths_B.cumsum(dim=0)))
        memory = translator.encode(source_tokens[self._is_token_BS], starts)
        self.memory: Tensor | None = None
        if keeps_memory:
            self.memory = memory.new_zeros(*source_tokens.shape, memory.shape[1])
            self.memory[self._is_token_BS] = memory
        self.vocab_size = translator.vocab_size
        self._search = translator.start(memory, starts, watched)
        self._lengths = lengths_B.tolist()
        self._keeps_attention = keeps_attention
        self._attention_BWS: Tensor | None = None

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the next token's natural log-probabilities, in fp32."""
        return self._search.step(tokens, self._prepare_attention(tokens))

    def find_best(
        self,
        tokens: Int[Tensor, "batch beam"],
        totals: Float[Tensor, "batch beam"],
        num_best: int,
        never: Sequence[int],
    ) -> tuple[Float[Tensor, "batch num_best"], Int[Tensor, "batch num_best"]]:
        """Returns each sentence's best continuations, in place of `step`; see `CompiledSearch`."""
        attention = self._prepare_attention(tokens)
        return self._search.find_best(tokens, totals, num_best, never, attention)

    def find_attention(self, sentence: int, hypothesis: int) -> NDArray[np.float32]:
        """Returns the watched head's attention to the source, [steps, src_len].

        Args:
            sentence: Index in the batch so far.
            hypothesis: Index among the sentence's, before `select`.
        """
        length = self._lengths[sentence]
        return self._search.copy_attention(sentence, hypothesis, length).numpy()

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and in each of them these hypotheses."""
        self._search.select(sentences, parents)
        self._lengths = [self._lengths[sentence] for sentence in sentences]
        if list(sentences) != list(range(len(self._is_token_BS))):
            self._is_token_BS = self._is_token_BS[list(sentences)]

    def source_attention(self) -> Float[Tensor, "batch beam src_len"]:
        """How much attention each hypothesis's newest step paid to each source token.

        The decoder's last layer's, the mean of its heads.
        """
        assert self._attention_BWS is not None, "read before the first step, or not requested"
        return self._attention_BWS

    def source_is_token(self) -> Bool[Tensor, "batch src_len"]:
        """False at padding."""
        return self._is_token_BS

    def _prepare_attention(self, tokens: Tensor) -> Tensor | None:
        if not self._keeps_attention:
            return None
        self._attention_BWS = torch.zeros(*tokens.shape, self._is_token_BS.shape[1])
        return self._attention_BWS


FindAttention = Callable[[int, int], NDArray[np.float32]]
"""Returns the watched attention of a sentence's hypothesis; see `CompiledSteps.find_attention`."""


def find_watched(model: StepModel) -> FindAttention | None:
    """Returns what tells the attention that a model watches; None where it watches none."""
    return model.find_attention if isinstance(model, CompiledSteps) and model.watches else None
