"""A translator's passes in C++: a whole encoder, or a step of a decoder, by one call.

It has the weights of a network whose products are compiled ones, and computes what that network
does, up to rounding. Each row is computed by itself, in an order of its own, so that a sentence
doesn't depend on those beside it, down to the last bit.
"""

import ctypes
from collections.abc import Sequence
from ctypes import byref, pointer

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.network.attention import WatchedHead
from mtkit.network.cpu.compiled import (
    CompiledLinear,
    Embedding,
    Handle,
    Layer,
    Norm,
    Shape,
    Wanted,
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
    """An encoder-decoder whose passes are compiled.

    Args:
        network: The network, with compiled products; see `is_compiled`.
    """

    def __init__(self, network: EncoderDecoder) -> None:
        library = choose_library()
        assert library is not None
        self._library = library
        self._network = network
        self.vocab_size, self.d_model = network.target_embedding.tokens.weight.shape
        self._encoder = self._build_stack(network.encoder, network.source_embedding)
        self._decoder = self._build_stack(network.decoder, network.target_embedding)
        projection = network.output_embedding.projection
        assert projection is not None
        self._projection = _handle(projection)

    def encode(
        self, tokens: Int[Tensor, " all_tokens"], starts: Int[Tensor, " batch_and_end"]
    ) -> Float[Tensor, "all_tokens d_model"]:
        """Returns the encoded sources.

        Args:
            tokens: Sources' tokens, one source behind the other.
            starts: Index of each source's first token; at last, the number of tokens.
        """
        memory = torch.empty(len(tokens), self.d_model)
        longest = int(starts.diff().max())
        positions = _find_positions(self._network.source_embedding, 0, longest)
        self._library.mtkit_encode(
            self._encoder.pointer,
            address(tokens, torch.int64),
            address(starts, torch.int64),
            len(starts) - 1,
            None if positions is None else address(positions),
            address(memory),
            torch.get_num_threads(),
        )
        return memory

    def start(
        self,
        memory: Float[Tensor, "all_tokens d_model"],
        starts: Int[Tensor, " batch_and_end"],
        watched: WatchedHead | None = None,
    ) -> "CompiledSearch":
        """Returns a search over encoded sources, one hypothesis for each.

        Args:
            memory: The sources, as `encode` returns them.
            starts: As `encode` takes them.
            watched: A head whose attention to the source will be asked for.
        """
        layer = -1 if watched is None else watched.layer - 1
        head = -1 if watched is None or watched.head is None else watched.head - 1
        handle = Handle(
            self._library.mtkit_new_search(
                self._decoder.pointer,
                self._projection.pointer,
                address(memory),
                address(starts, torch.int64),
                len(starts) - 1,
                layer,
                head,
                torch.get_num_threads(),
            ),
            self._library.mtkit_free_search,
            self,
        )
        return CompiledSearch(
            self._library, handle, self._network.target_embedding, self.vocab_size
        )

    def _build_stack(self, stack: TransformerStack, embedding: InputEmbedding) -> Handle:
        layers = [_describe_layer(layer) for layer in stack.layers]
        first = stack.layers[0]
        assert isinstance(first, TransformerLayer)
        attention, _ = first.find_self_attention()
        keys, _, values = attention.widths
        shape = Shape(
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
        return Handle(
            self._library.mtkit_new_stack(
                byref(shape),
                byref(vectors),
                (Layer * len(layers))(*layers),
                len(layers),
                None if final_norm is None else byref(final_norm),
            ),
            self._library.mtkit_free_stack,
            norm,
            final_norm,
            self._network,
        )


class CompiledSearch:
    """Hypotheses of a batch, and all that a decoder remembers of them.

    Every sentence has the same number of hypotheses, 1 at first; `CompiledTranslator.start` makes
    one.
    """

    def __init__(
        self, library: ctypes.CDLL, handle: Handle, embedding: InputEmbedding, vocab_size: int
    ) -> None:
        self._library, self._handle = library, handle
        self._embedding = embedding
        self._vocab_size = vocab_size
        self._num_steps = 0

    def step(
        self, tokens: Int[Tensor, "batch beam"], attention: Tensor | None = None
    ) -> Float[Tensor, "batch beam vocab"]:
        """Returns the log-probabilities of the token after `tokens`.

        Args:
            tokens: Each hypothesis's newest token, `<s>` first.
            attention: Where the mean attention of the last layer's heads to the source goes,
                [batch, beam, src_len], zeros so far; not asked for where None.
        """
        log_probs = torch.empty(*tokens.shape, self._vocab_size)
        self._run(tokens, attention, Wanted(log_probabilities=address(log_probs)))
        return log_probs

    def find_best(
        self,
        tokens: Int[Tensor, "batch beam"],
        totals: Float[Tensor, "batch beam"],
        num_best: int,
        never: Sequence[int],
        attention: Tensor | None = None,
    ) -> tuple[Float[Tensor, "batch num_best"], Int[Tensor, "batch num_best"]]:
        """Returns each sentence's best continuations: totals plus log-probabilities, and which.

        Which one is the hypothesis's index times the size of the vocabulary plus the token. Of
        equals the one of the earlier hypothesis comes first, then that of the lower token id. Where
        there are fewer, what is missing has minus infinity.

        Args:
            tokens: Each hypothesis's newest token, `<s>` first.
            totals: What its continuations' log-probabilities are added to.
            num_best: How many.
            never: Tokens that may not follow.
            attention: As in `step`.
        """
        values = torch.empty(len(tokens), num_best)
        best = torch.empty(len(tokens), num_best, dtype=torch.int64)
        totals = totals.contiguous()
        without = (ctypes.c_int64 * len(never))(*never)
        wanted = Wanted(
            totals=address(totals),
            best_values=address(values),
            best=address(best, torch.int64),
            num_best=num_best,
            never=ctypes.addressof(without),
            num_never=len(never),
        )
        self._run(tokens, attention, wanted)
        return values, best

    def _run(self, tokens: Tensor, attention: Tensor | None, wanted: Wanted) -> None:
        tokens = tokens.contiguous()
        if attention is not None:
            wanted.source_attention = address(attention)
            wanted.attention_width = attention.shape[2]
        position = _find_positions(self._embedding, self._num_steps, 1)
        self._num_steps += 1
        self._library.mtkit_step(
            self._handle.pointer,
            address(tokens, torch.int64),
            None if position is None else address(position),
            byref(wanted),
            torch.get_num_threads(),
        )

    def copy_attention(
        self, sentence: int, hypothesis: int, src_len: int
    ) -> Float[Tensor, "steps src_len"]:
        """Returns the attention to the source that was watched at each step so far.

        Args:
            sentence: Index in the batch so far.
            hypothesis: Index among the sentence's, before `select`.
            src_len: Tokens of the sentence's source.
        """
        found = torch.empty(self._num_steps, src_len)
        self._library.mtkit_copy_attention(
            self._handle.pointer, sentence, hypothesis, address(found)
        )
        return found

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, and in each of them these hypotheses."""
        parents = parents.contiguous()
        kept = torch.tensor(sentences, dtype=torch.int64)
        self._library.mtkit_select(
            self._handle.pointer,
            address(kept, torch.int64),
            len(kept),
            address(parents, torch.int64),
            parents.shape[1],
        )


def can_compile(model: Model) -> bool:
    """Checks that a translator's layers are of kinds that are compiled, and a library is there."""
    return (
        choose_library() is not None
        and model.positions != "rotary"
        and model.attention_window is None
        and model.architecture == "encoder-decoder"
    )


def is_compiled(network: EncoderDecoder) -> bool:
    """Checks that a network's layers can be compiled, and that its products are compiled ones."""
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


def _describe_norm(norm: nn.Module) -> Norm:
    assert isinstance(norm, nn.LayerNorm)
    weight, bias = norm.weight.detach(), norm.bias.detach()
    return Norm(weight=address(weight), bias=address(bias), epsilon=norm.eps)


def _handle(linear: nn.Module) -> Handle:
    # Linear maps have been replaced; see `is_compiled`.
    if isinstance(linear, CompiledLinear):
        return linear.handle
    assert isinstance(linear, QuantizedLinear)
    assert isinstance(linear.product, CompiledProduct)
    return linear.product.handle


def _find_positions(embedding: InputEmbedding, first: int, length: int) -> Tensor | None:
    """Returns the vectors of positions; None where nothing is added."""
    if embedding.positions is None:
        return None
    found: Tensor = embedding.positions(first, length).detach().float().contiguous()
    return found
