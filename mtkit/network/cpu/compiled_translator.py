"""A translator's passes in C++: a whole encoder, or one decoder step, per call.

It uses the weights of a network with compiled products, and computes the same up to rounding. Each
row is computed independently in a fixed order. So a sentence's bits don't depend on the others in
its batch.
"""

import ctypes
from collections.abc import Sequence
from ctypes import byref, pointer
from itertools import accumulate, chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.network.attention import WatchedHead
from mtkit.network.cpu.compiled import (
    CompiledLinear,
    Embedding,
    Layer,
    LibraryHandle,
    NetworkShape,
    NormWeights,
    StepOutputs,
    address,
    choose_library,
)
from mtkit.network.cpu.quantized import CompiledProduct, QuantizedLinear
from mtkit.network.embeddings import InputEmbedding
from mtkit.network.encoder_decoder import EncoderDecoder
from mtkit.network.stack import TransformerLayer, TransformerStack
from mtkit.recipe.model import Model

_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "swiglu")
"""In the order of kernels/layers.h."""


class CompiledTranslator:
    """An encoder-decoder with compiled passes; its network must satisfy `is_compiled`."""

    def __init__(self, network: EncoderDecoder) -> None:
        library = choose_library()
        assert library is not None
        self.library, self.network = library, network
        self.vocab_size, self.d_model = network.target_embedding.tokens.weight.shape
        self._encoder = self._build_stack(network.encoder, network.source_embedding)
        self.decoder = self._build_stack(network.decoder, network.target_embedding)
        projection = network.output_embedding.projection
        assert projection is not None
        self.projection = _handle(projection)

    def encode(
        self, tokens: Int[Tensor, " all_tokens"], starts: Int[Tensor, " batch_and_end"]
    ) -> Float[Tensor, "all_tokens d_model"]:
        """Returns the encoded sources; `starts` has each source's first index, then the total."""
        memory = torch.empty(len(tokens), self.d_model)
        longest = int(starts.diff().max())
        positions = _find_positions(self.network.source_embedding, 0, longest)
        self.library.mtkit_encode(
            self._encoder.pointer,
            address(tokens, torch.int64),
            address(starts, torch.int64),
            len(starts) - 1,
            None if positions is None else address(positions),
            address(memory),
            torch.get_num_threads(),
        )
        return memory

    def read(
        self,
        sources: Sequence[Sequence[int]],
        attention_width: int = 0,
        *,
        keeps_memory: bool = False,
        watched: WatchedHead | None = None,
    ) -> "CompiledSearch":
        """Returns a search over sources, each closed by `</s>`; see `CompiledSearch`."""
        tokens = torch.tensor(list(chain.from_iterable(sources)))
        starts = torch.tensor([0, *accumulate(map(len, sources))])
        memory = self.encode(tokens, starts)
        search = CompiledSearch(self, memory, starts, attention_width, watched)
        search.memory = memory if keeps_memory else None
        return search

    def _build_stack(self, stack: TransformerStack, embedding: InputEmbedding) -> LibraryHandle:
        layers = [_describe_layer(layer) for layer in stack.layers]
        first = stack.layers[0]
        assert isinstance(first, TransformerLayer)
        attention, _ = first.find_self_attention()
        keys, _, values = attention.widths
        shape = NetworkShape(
            d_model=self.d_model,
            num_heads=attention.num_heads,
            d_key=keys // attention.num_heads,
            d_value=values // attention.num_heads,
            norm_first=first.norm_first,
            activation=_ACTIVATIONS.index(first.feed_forward.activation),
        )
        norm = None if isinstance(embedding.norm, nn.Identity) else _describe_norm(embedding.norm)
        vectors = Embedding(
            tokens=address(embedding.tokens.weight.detach()),
            num_tokens=len(embedding.tokens.weight),
            scale=embedding.tokens.scale,
            norm=None if norm is None else pointer(norm),
        )
        final = stack.final_norm
        final_norm = None if isinstance(final, nn.Identity) else _describe_norm(final)
        return LibraryHandle(
            self.library.mtkit_new_stack(
                byref(shape),
                byref(vectors),
                (Layer * len(layers))(*layers),
                len(layers),
                None if final_norm is None else byref(final_norm),
            ),
            self.library.mtkit_free_stack,
            norm,
            final_norm,
            self.network,
        )


class CompiledSearch(LibraryHandle):
    """A step model for a search: a batch of hypotheses with the decoder's state.

    Every sentence has the same number of hypotheses, 1 at first. `memory` and `starts` are as in
    `CompiledTranslator.encode`. `attention_width` is the padded source length of
    `source_attention`; 0 if that isn't needed. `watched` is the head of `find_attention`.

    Attributes:
        memory: The encoded sources, [all_tokens, d_model]; None if they aren't kept.
        vocab_size: Tokens of the target's vocabulary.
    """

    memory: Tensor | None = None

    def __init__(
        self,
        translator: CompiledTranslator,
        memory: Float[Tensor, "all_tokens d_model"],
        starts: Int[Tensor, " batch_and_end"],
        attention_width: int = 0,
        watched: WatchedHead | None = None,
    ) -> None:
        library = translator.library
        created = library.mtkit_new_search(
            translator.decoder.pointer,
            translator.projection.pointer,
            address(memory),
            address(starts, torch.int64),
            len(starts) - 1,
            -1 if watched is None else watched.layer - 1,
            -1 if watched is None or watched.head is None else watched.head - 1,
            torch.get_num_threads(),
        )
        super().__init__(created, library.mtkit_free_search, translator)
        self._library, self.vocab_size = library, translator.vocab_size
        self._embedding = translator.network.target_embedding
        self._lengths = starts.diff().tolist()
        self._width, self._watches = attention_width, watched is not None
        self._attention_BWS: Tensor | None = None
        self._num_steps = 0

    def step(self, tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam vocab"]:
        """Returns the log-probabilities of the token after `tokens`, `<s>` first."""
        log_probs = torch.empty(*tokens.shape, self.vocab_size)
        self._run(tokens, StepOutputs(log_probabilities=address(log_probs)))
        return log_probs

    def find_best(
        self,
        tokens: Int[Tensor, "batch beam"],
        totals: Float[Tensor, "batch beam"],
        num_best: int,
        never: Sequence[int],
    ) -> tuple[Float[Tensor, "batch num_best"], Int[Tensor, "batch num_best"]]:
        """Returns the totals of each sentence's best continuations, and their indices.

        An index is the hypothesis's times the size of the vocabulary plus the token. Ties go to the
        earlier hypothesis, then to the lower token id. Missing continuations have minus infinity.
        Log-probabilities are added to `totals`; tokens in `never` may not follow.
        """
        values = torch.empty(len(tokens), num_best)
        best = torch.empty(len(tokens), num_best, dtype=torch.int64)
        totals = totals.contiguous()
        without = (ctypes.c_int64 * len(never))(*never)
        wanted = StepOutputs(
            totals=address(totals),
            best_values=address(values),
            best=address(best, torch.int64),
            num_best=num_best,
            never=ctypes.addressof(without),
            num_never=len(never),
        )
        self._run(tokens, wanted)
        return values, best

    def _run(self, tokens: Tensor, wanted: StepOutputs) -> None:
        tokens = tokens.contiguous()
        if self._width:
            self._attention_BWS = torch.zeros(*tokens.shape, self._width)
            wanted.source_attention = address(self._attention_BWS)
            wanted.attention_width = self._width
        position = _find_positions(self._embedding, self._num_steps, 1)
        self._num_steps += 1
        self._library.mtkit_step(
            self.pointer,
            address(tokens, torch.int64),
            None if position is None else address(position),
            byref(wanted),
            torch.get_num_threads(),
        )

    def find_attention(self, sentence: int, hypothesis: int) -> NDArray[np.float32] | None:
        """Returns the watched head's attention, [steps, src_len], by indices before `select`."""
        if not self._watches:
            return None
        found = torch.empty(self._num_steps, self._lengths[sentence])
        self._library.mtkit_copy_attention(self.pointer, sentence, hypothesis, address(found))
        return found.numpy()

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and these hypotheses in each."""
        parents = parents.contiguous()
        kept = torch.tensor(sentences, dtype=torch.int64)
        self._library.mtkit_select(
            self.pointer,
            address(kept, torch.int64),
            len(kept),
            address(parents, torch.int64),
            parents.shape[1],
        )
        self._lengths = [self._lengths[sentence] for sentence in sentences]

    def source_attention(
        self,
    ) -> tuple[Float[Tensor, "batch beam src_len"], Bool[Tensor, "batch src_len"]]:
        """Returns the newest step's mean attention in the last layer, and the real-token mask."""
        assert self._attention_BWS is not None, "read before the first step, or not requested"
        is_token = torch.arange(self._width) < torch.tensor(self._lengths)[:, None]
        return self._attention_BWS, is_token


def can_compile(model: Model) -> bool:
    """Checks that a translator's layers can be compiled, and that there is a library."""
    return (
        choose_library() is not None
        and model.positions != "rotary"
        and model.attention_window is None
        and model.architecture == "encoder-decoder"
    )


def is_compiled(network: EncoderDecoder) -> bool:
    """Checks that a network's layers can be compiled, and that its products are compiled."""
    projection = network.output_embedding.projection
    return can_compile(network.model) and (
        isinstance(projection, CompiledLinear)
        or (
            isinstance(projection, QuantizedLinear)
            and isinstance(projection.product, CompiledProduct)
        )
    )


def _describe_layer(layer: nn.Module) -> Layer:
    assert isinstance(layer, TransformerLayer)
    attention, norm = layer.find_self_attention()
    described = Layer(
        self_norm=_describe_norm(norm),
        feed_forward_norm=_describe_norm(layer.feed_forward_norm),
        query_key_value=_handle(attention.query_key_value).pointer,
        self_output=_handle(attention.output).pointer,
        inner=_handle(layer.feed_forward.inner).pointer,
        outer=_handle(layer.feed_forward.output).pointer,
    )
    if layer.has_cross_attention:
        described.cross_norm = _describe_norm(layer.cross_attention_norm)
        described.cross_query = _handle(layer.cross_attention.query).pointer
        described.cross_key_value = _handle(layer.cross_attention.key_value).pointer
        described.cross_output = _handle(layer.cross_attention.output).pointer
    return described


def _describe_norm(norm: nn.Module) -> NormWeights:
    assert isinstance(norm, nn.LayerNorm)
    weight, bias = norm.weight.detach(), norm.bias.detach()
    return NormWeights(weight=address(weight), bias=address(bias), epsilon=norm.eps)


def _handle(linear: nn.Module) -> LibraryHandle:
    # Linear maps have been replaced; see `is_compiled`.
    if isinstance(linear, CompiledLinear):
        return linear.handle
    assert isinstance(linear, QuantizedLinear)
    assert isinstance(linear.product, CompiledProduct)
    return linear.product.handle


def _find_positions(embedding: InputEmbedding, first: int, length: int) -> Tensor | None:
    """Returns the vectors of positions; None if none are added."""
    if embedding.positions is None:
        return None
    found: Tensor = embedding.positions(first, length).detach().float().contiguous()
    return found
