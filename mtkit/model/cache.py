"""Keys and values that a decoder keeps between steps."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass
class LayerCache:
    """One decoder layer's keys and values.

    The source's stand once per sentence, however many hypotheses read them.
    """

    source_keys: Float[Tensor, "batch heads src_len d_key"]
    source_values: Float[Tensor, "batch heads src_len d_value"]
    target_keys: Float[Tensor, "rows heads tgt_len d_key"] | None = None
    target_values: Float[Tensor, "rows heads tgt_len d_value"] | None = None

    def append(
        self,
        keys: Float[Tensor, "rows heads 1 d_key"],
        values: Float[Tensor, "rows heads 1 d_value"],
        *,
        window: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Adds one target position; returns all keys and values so far.

        With a window, those of `window` positions before the new one, and its own: older ones are
        never looked at again.
        """
        if self.target_keys is not None and self.target_values is not None:
            keys = torch.cat((self.target_keys, keys), dim=2)
            values = torch.cat((self.target_values, values), dim=2)
        if window is not None:
            keys, values = keys[:, :, -window - 1 :], values[:, :, -window - 1 :]
        self.target_keys, self.target_values = keys, values
        return keys, values


@dataclass
class DecoderCache:
    """What a decoder needs to take its next step, for `batch` sentences of `beam` hypotheses each.

    A step's rows are sentence by sentence: hypothesis k of sentence b is row b * beam + k. The beam
    follows from the number of rows in a step, and may change from one `select` to the next.
    """

    layers: list[LayerCache]
    source_is_token: Bool[Tensor, "batch src_len"]
    num_steps: int = field(default=0)

    def select_rows(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Keeps these hypotheses, in this order; one row may be named several times."""
        for layer in self.layers:
            if layer.target_keys is not None and layer.target_values is not None:
                layer.target_keys = layer.target_keys.index_select(0, rows)
                layer.target_values = layer.target_values.index_select(0, rows)

    def select_sentences(self, sentences: Int[Tensor, " new_batch"]) -> None:
        """Keeps these sentences' source side, in this order; call `select_rows` to match."""
        self.source_is_token = self.source_is_token.index_select(0, sentences)
        for layer in self.layers:
            layer.source_keys = layer.source_keys.index_select(0, sentences)
            layer.source_values = layer.source_values.index_select(0, sentences)
