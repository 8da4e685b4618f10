"""Keys and values that a decoder keeps between steps.

A hypothesis's keys and values are never copied when hypotheses are reordered. Each step adds one
slot per hypothesis to its sentence's keys and values, and they stay in that slot; `is_ancestor`
says which slots a hypothesis descends from, and attention looks at these alone. That costs a few
products more than moving keys and values about, which costs memory traffic (docs/log.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.network.cpu.heads import Heads

_FIRST_SLOTS = 32


@dataclass
class LayerCache:
    """One decoder layer's keys and values.

    The source's stand once per sentence, however many hypotheses read them. The target's stand in
    slots, in the order in which they were added; the last ones may be unused yet.
    """

    source_keys: Float[Tensor, "batch heads src_len d_key"]
    source_values: Float[Tensor, "batch heads src_len d_value"]
    target_keys: Float[Tensor, "batch heads slots d_key"] | None = None
    target_values: Float[Tensor, "batch heads slots d_value"] | None = None

    @classmethod
    def of_source(cls, keys: Heads, values: Heads) -> "LayerCache":
        """Returns the cache of a padded source's keys and values, and of no target position.

        Heads apart, which would else be copied apart at every step; in fp32 on a CPU, where
        products as small as those of a step gain nothing from bfloat16.
        """
        (source_keys,), (source_values,) = keys, values
        if source_keys.device.type == "cpu" and source_keys.dtype == torch.bfloat16:
            source_keys, source_values = source_keys.float(), source_values.float()
        return cls(source_keys.contiguous(), source_values.contiguous())

    def append(
        self,
        keys: Float[Tensor, "batch heads beam d_key"],
        values: Float[Tensor, "batch heads beam d_value"],
        *,
        first: int,
        oldest: int,
    ) -> tuple[Tensor, Tensor]:
        """Adds each hypothesis's newest position; returns all keys and values.

        Args:
            keys: The newest positions' keys.
            values: Their values.
            first: The slot of the first hypothesis.
            oldest: The first slot to return.
        """
        keys, values = keys.to(self.source_keys.dtype), values.to(self.source_keys.dtype)
        end = first + keys.shape[2]
        self.target_keys = _with_room(self.target_keys, keys, end)
        self.target_values = _with_room(self.target_values, values, end)
        self.target_keys[:, :, first:end] = keys
        self.target_values[:, :, first:end] = values
        return self.target_keys[:, :, oldest:end], self.target_values[:, :, oldest:end]


@dataclass
class DecoderCache:
    """The state of a decoder between two steps, for a batch of sentences.

    Every sentence has the same number of hypotheses, 1 before the first step; `select` may change
    it.

    Attributes:
        layers: Each layer's keys and values.
        source_is_token: False at padding.
        keeps_attention: Whether a step keeps its attention to the source.
        source_attention: The newest step's, in the last layer, the mean of its heads.
        num_steps: Steps taken.
        is_ancestor: Which slots each hypothesis descends from.
        source_bias: 0 at the source's tokens, a very negative number at padding; None without any.
    """

    layers: list[LayerCache]
    source_is_token: Bool[Tensor, "batch src_len"]
    keeps_attention: bool = False
    source_attention: Float[Tensor, "batch beam src_len"] | None = None
    num_steps: int = 0
    is_ancestor: Bool[Tensor, "batch beam slots"] = field(init=False)
    source_bias: Float[Tensor, "batch 1 1 src_len"] | None = field(init=False, default=None)
    _first_slots: list[int] = field(init=False, default_factory=list)
    _sight: dict[int, Float[Tensor, "batch 1 beam _"]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.is_ancestor = self.source_is_token.new_empty((self.source_is_token.shape[0], 1, 0))
        if not bool(self.source_is_token.all()):
            self.source_bias = self._as_bias(self.source_is_token[:, None, None])

    def _as_bias(self, is_visible: Tensor) -> Tensor:
        """Returns what to add to scores: 0 where something may be looked at."""
        like = self.layers[0].source_keys
        bias = like.new_zeros(is_visible.shape)
        return bias.masked_fill_(~is_visible, torch.finfo(like.dtype).min)

    def begin_step(self) -> None:
        """Adds a slot for each hypothesis's newest position."""
        batch, width, num_slots = self.is_ancestor.shape
        newest = torch.eye(width, dtype=torch.bool, device=self.is_ancestor.device)
        self.is_ancestor = torch.cat((self.is_ancestor, newest.expand(batch, -1, -1)), dim=2)
        self._first_slots.append(num_slots)
        self.num_steps += 1
        self._sight.clear()

    def see(self, window: int | None) -> tuple[int, int, Float[Tensor, "batch 1 beam _"] | None]:
        """Returns the newest position's first slot, the oldest slot in sight, and a bias on slots.

        Args:
            window: How many positions before the newest are in sight; all where it isn't given.

        Returns:
            None as the bias where every hypothesis descends from all slots from the oldest
            on; else 0 where it does and a very negative number where it doesn't.
        """
        oldest = 0
        if window is not None and self.num_steps > window + 1:
            oldest = self._first_slots[-window - 1]
        return self._first_slots[-1], oldest, self._see_from(oldest)

    def _see_from(self, oldest: int) -> Tensor | None:
        """Returns the bias on the slots from the oldest on, made once for all layers of a step.

        It has memory of its own: CUDA's kernels read a mask sixteen bytes at a time, and a slice of
        a longer one may begin between two such addresses.
        """
        # With one slot a step there was never more than one hypothesis.
        if self.is_ancestor.shape[2] == self.num_steps:
            return None
        if oldest not in self._sight:
            self._sight[oldest] = self._as_bias(self.is_ancestor[:, None, :, oldest:])
        return self._sight[oldest]

    def select(self, sentences: Sequence[int], parents: Int[Tensor, "new_batch new_beam"]) -> None:
        """Keeps these sentences, in this order, and in each of them these hypotheses.

        It is cheap where a sentence that is dropped is replaced by one from the end.

        Args:
            sentences: Indices in the batch so far.
            parents: For each hypothesis to come, the index of the one that it continues, among
                its own sentence's so far; one may be named several times.
        """
        if list(sentences) != list(range(self.is_ancestor.shape[0])):
            moves = _Moves.of(sentences, self.is_ancestor.device)
            # Another model of an ensemble may hold the same tensor: this one is left as it is.
            self.source_is_token = self.source_is_token.index_select(0, moves.order)
            self.is_ancestor = self.is_ancestor.index_select(0, moves.order)
            if self.source_bias is not None:
                self.source_bias = self.source_bias.index_select(0, moves.order)
            for layer in self.layers:
                layer.source_keys = moves.apply(layer.source_keys)
                layer.source_values = moves.apply(layer.source_values)
                if layer.target_keys is not None and layer.target_values is not None:
                    layer.target_keys = moves.apply(layer.target_keys)
                    layer.target_values = moves.apply(layer.target_values)
        self.is_ancestor = self.is_ancestor.gather(
            1, parents[:, :, None].expand(-1, -1, self.is_ancestor.shape[2])
        )


@dataclass(frozen=True)
class _Moves:
    """Which sentences move to which indices."""

    num_kept: int
    order: Tensor
    sources: Tensor
    targets: Tensor
    is_in_place: bool

    @classmethod
    def of(cls, sentences: Sequence[int], device: torch.device) -> "_Moves":
        moved = [(old, new) for new, old in enumerate(sentences) if old != new]
        sources, targets = zip(*moved, strict=True) if moved else ((), ())
        return cls(
            num_kept=len(sentences),
            order=torch.tensor(list(sentences), dtype=torch.int64, device=device),
            sources=torch.tensor(sources, dtype=torch.int64, device=device),
            targets=torch.tensor(targets, dtype=torch.int64, device=device),
            is_in_place=not set(sources) & set(range(len(sentences))),
        )

    def apply(self, tensor: Tensor) -> Tensor:
        if not self.is_in_place:
            return tensor.index_select(0, self.order)
        if len(self.sources):
            tensor[self.targets] = tensor[self.sources]
        return tensor[: self.num_kept]


def _with_room(slots: Tensor | None, newest: Tensor, end: int) -> Tensor:
    """Returns the slots with room up to `end`, in new memory where there was too little."""
    if slots is not None and slots.shape[2] >= end:
        return slots
    batch, heads, _, width = newest.shape
    num_slots = max(2 * end, _FIRST_SLOTS)
    grown = newest.new_empty((batch, heads, num_slots, width))
    if slots is not None:
        grown[:, :, : slots.shape[2]] = slots
    return grown
