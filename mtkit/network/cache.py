"""Keys and values that a decoder caches between steps.

Reordering hypotheses copies no keys or values. Each step adds one slot per hypothesis to its
sentence's keys and values, and slots never move. `is_ancestor` says which slots a hypothesis
descends from, and attention sees only those. That costs a few more products; moving keys and values
would cost memory traffic (docs/log.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.network.device import send
from mtkit.network.layout import Heads

_FIRST_SLOTS = 32


@dataclass
class LayerCache:
    """One decoder layer's keys and values."""

    # The source's are stored once per sentence. The target's are in slots, in the order in which
    # they were added; the last slots are unused.

    source_keys: Float[Tensor, "batch heads src_len d_key"] | None = None
    source_values: Float[Tensor, "batch heads src_len d_value"] | None = None
    target_keys: Float[Tensor, "batch heads slots d_key"] | None = None
    target_values: Float[Tensor, "batch heads slots d_value"] | None = None

    @classmethod
    def of_source(cls, keys: Heads, values: Heads) -> "LayerCache":
        """Returns the cache of a padded source's keys and values, without target positions."""
        # Each head is contiguous; otherwise a step would copy it. A head's keys are stored
        # transposed, as the right-hand side of a step's product, which halves its time
        # (docs/log.md).
        across = _to_cached_type(keys[0]).transpose(2, 3).contiguous()
        return cls(across.transpose(2, 3), _to_cached_type(values[0]).contiguous())

    def append(
        self,
        keys: Float[Tensor, "batch heads beam d_key"],
        values: Float[Tensor, "batch heads beam d_value"],
        *,
        first: int,
        oldest: int,
    ) -> tuple[Tensor, Tensor]:
        """Adds the hypotheses' newest positions from slot `first`; returns all from `oldest` on."""
        keys, values = _to_cached_type(keys), _to_cached_type(values)
        end = first + keys.shape[2]
        self.target_keys = _grow(self.target_keys, keys, end)
        self.target_values = _grow(self.target_values, values, end)
        self.target_keys[:, :, first:end] = keys
        self.target_values[:, :, first:end] = values
        return self.target_keys[:, :, oldest:end], self.target_values[:, :, oldest:end]

    def select(self, move: Callable[[Tensor], Tensor]) -> None:
        """Keeps the sentences that `move` keeps."""
        for name, tensor in vars(self).items():
            if tensor is not None:
                setattr(self, name, move(tensor))


@dataclass
class DecoderCache:
    """The state of a decoder between two steps, for a batch of sentences.

    Every sentence has the same number of hypotheses: 1 before the first step, then as in `select`.

    Attributes:
        source_is_token: False at padding.
        keeps_attention: Whether a step keeps its attention to the source.
        source_attention: The newest step's, in the last layer, as the mean of the heads.
        text_lengths: Tokens of each text read before the first step; None without any or if all
            lengths are equal.
        slot_positions: Each slot's position in its text, if lengths differ.
        is_ancestor: Which slots each hypothesis descends from.
        source_bias: 0 at the source's tokens, a very negative number at padding; None without any.
    """

    layers: list[LayerCache]
    source_is_token: Bool[Tensor, "batch src_len"]
    keeps_attention: bool = False
    source_attention: Float[Tensor, "batch beam src_len"] | None = None
    text_lengths: Int[Tensor, " batch"] | None = field(init=False, default=None)
    slot_positions: Int[Tensor, "batch slots"] | None = field(init=False, default=None)
    is_ancestor: Bool[Tensor, "batch beam slots"] = field(init=False)
    source_bias: Float[Tensor, "batch 1 1 src_len"] | None = field(init=False, default=None)
    _first_slots: list[int] = field(init=False, default_factory=list)
    _text_width: int = field(init=False, default=0)
    _slot_biases: dict[int, Float[Tensor, "batch 1 beam _"]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self.is_ancestor = self.source_is_token.new_empty((self.source_is_token.shape[0], 1, 0))
        source_keys = self.layers[0].source_keys
        if source_keys is not None and not bool(self.source_is_token.all()):
            self.source_bias = _as_bias(self.source_is_token[:, None, None], source_keys.dtype)

    @classmethod
    def of_texts(
        cls, layers: list[LayerCache], is_token: Bool[Tensor, "batch length"]
    ) -> "DecoderCache":
        """Returns the cache of texts that were read, without a source; one slot per position."""
        cache = cls(layers, is_token[:, :0])
        cache.is_ancestor = is_token[:, None]
        cache._first_slots = list(range(is_token.shape[1]))
        if not bool(is_token.all()):
            cache.text_lengths = is_token.sum(dim=1)
            positions = torch.arange(is_token.shape[1], device=is_token.device)
            cache.slot_positions = positions.expand(is_token.shape)
        cache._text_width = is_token.shape[1]
        return cache

    @property
    def num_steps(self) -> int:
        """Steps taken, including positions read before the first."""
        return len(self._first_slots)

    def find_position(self) -> int | Int[Tensor, " batch"]:
        """Returns the position of the next token; one per text if they differ."""
        if self.text_lengths is None:
            return self.num_steps
        return self.text_lengths + (self.num_steps - self._text_width)

    @property
    def newest_slot(self) -> int:
        """The slot of the first hypothesis's newest position."""
        return self._first_slots[-1]

    @property
    def newest_positions(self) -> Int[Tensor, "#batch 1"]:
        """int64: the current step's position; one per text if they differ."""
        if self.slot_positions is not None:
            return self.slot_positions[:, -1:]
        # Filled, not copied: a copy would wait for a GPU.
        return torch.full((1, 1), self.num_steps - 1, device=self.is_ancestor.device)

    def begin_step(self) -> None:
        """Adds a slot for each hypothesis's newest position."""
        batch, width, num_slots = self.is_ancestor.shape
        if self.slot_positions is not None:
            position = self.find_position()
            assert isinstance(position, Tensor)
            newest_positions = position[:, None].expand(-1, width)
            self.slot_positions = torch.cat((self.slot_positions, newest_positions), dim=1)
        newest = torch.eye(width, dtype=torch.bool, device=self.is_ancestor.device)
        self.is_ancestor = torch.cat((self.is_ancestor, newest.expand(batch, -1, -1)), dim=2)
        self._first_slots.append(num_slots)
        self._slot_biases.clear()

    def find_oldest_slot(self, window: int | None) -> int:
        """Returns the first slot that the newest position sees with this window."""
        if window is None or self.slot_positions is not None or self.num_steps <= window + 1:
            return 0
        return self._first_slots[-window - 1]

    def find_slot_bias(
        self, oldest: int, dtype: torch.dtype, *, window: int | None = None
    ) -> Float[Tensor, "batch 1 beam _"] | None:
        """Returns the bias on the slots from `oldest`, computed once for all layers of a step.

        0 if a hypothesis descends from a slot, else a very negative number; None if every
        hypothesis descends from all of them. It has its own memory: CUDA kernels read masks in
        aligned blocks of sixteen bytes, and a slice could be misaligned.
        """
        # With one slot per step there was never more than one hypothesis.
        if self.is_ancestor.shape[2] == self.num_steps and self.slot_positions is None:
            return None
        if oldest not in self._slot_biases:
            is_visible = self.is_ancestor[:, None, :, oldest:]
            if self.slot_positions is not None and window is not None:
                # The newest slots' position is the newest.
                ahead = self.slot_positions[:, -1:] - self.slot_positions
                is_visible = is_visible & (ahead <= window)[:, None, None]
            self._slot_biases[oldest] = _as_bias(is_visible, dtype)
        return self._slot_biases[oldest]

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, in this order, and these hypotheses in each.

        It is cheap if a dropped sentence is replaced by one from the end. `parents` has, for each
        new hypothesis, the index of the old one in its sentence; an index may occur several times.
        """
        if list(sentences) != list(range(self.is_ancestor.shape[0])):
            device = self.is_ancestor.device
            order = send(torch.tensor(list(sentences), dtype=torch.int64), device)
            # Another model of an ensemble may share this tensor: it isn't changed in place.
            self.source_is_token = self.source_is_token.index_select(0, order)
            self.is_ancestor = self.is_ancestor.index_select(0, order)
            if self.text_lengths is not None and self.slot_positions is not None:
                self.text_lengths = self.text_lengths.index_select(0, order)
                self.slot_positions = self.slot_positions.index_select(0, order)
            if self.source_bias is not None:
                self.source_bias = self.source_bias.index_select(0, order)
            move = _plan_move(sentences, order)
            for layer in self.layers:
                layer.select(move)
        self.is_ancestor = self.is_ancestor.gather(
            1, parents[:, :, None].expand(-1, -1, self.is_ancestor.shape[2])
        )


def _plan_move(sentences: Sequence[int], order: Tensor) -> Callable[[Tensor], Tensor]:
    """Returns a function that selects these sentences of a tensor, in place if possible."""
    moves = [(old, new) for new, old in enumerate(sentences) if old != new]
    if not {old for old, _ in moves}.isdisjoint(range(len(sentences))):
        # A target index is also a source index.
        return lambda tensor: tensor.index_select(0, order)
    pairs = send(torch.tensor(moves, dtype=torch.int64).view(-1, 2), order.device)
    old, new = pairs.unbind(1)

    def move(tensor: Tensor) -> Tensor:
        if moves:
            tensor[new] = tensor[old]
        return tensor[: len(sentences)]

    return move


def _to_cached_type(heads: Tensor) -> Tensor:
    """Returns keys or values as they are cached: on a CPU in fp32, never in bfloat16."""
    # A step's products are too small to gain from bfloat16 there.
    is_slow = heads.device.type == "cpu" and heads.dtype == torch.bfloat16
    return heads.float() if is_slow else heads


def _as_bias(is_visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a bias on scores: 0 for visible keys, a very negative number for others."""
    bias = torch.zeros(is_visible.shape, dtype=dtype, device=is_visible.device)
    return bias.masked_fill_(~is_visible, torch.finfo(dtype).min)


def _grow(slots: Tensor | None, newest: Tensor, end: int) -> Tensor:
    """Returns the slots with capacity for `end`, in new memory if needed."""
    if slots is not None and slots.shape[2] >= end:
        return slots
    batch, heads, _, width = newest.shape
    num_slots = max(2 * end, _FIRST_SLOTS)
    grown = newest.new_empty((batch, heads, num_slots, width))
    if slots is not None:
        grown[:, :, : slots.shape[2]] = slots
    return grown
