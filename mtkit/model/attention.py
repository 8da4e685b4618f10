"""Multi-head scaled dot-product attention (arXiv 1706.03762, section 3.2)."""

from contextlib import nullcontext

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtkit.model.cache import LayerCache


def attend(
    queries: Float[Tensor, "batch heads queries d_key"],
    keys: Float[Tensor, "batch heads memory d_key"],
    values: Float[Tensor, "batch heads memory d_value"],
    *,
    memory_is_token: Bool[Tensor, "batch memory"] | None = None,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads queries d_value"]:
    """Returns softmax(Q K^T / sqrt(d_key)) V of each head.

    Args:
        queries: What asks.
        keys: What is compared with the queries.
        values: What is returned, weighted.
        memory_is_token: Which keys may be attended to; all where it isn't given.
        is_causal: Query i sees keys 0 to i; not together with `memory_is_token`, which some of
            PyTorch's kernels refuse beside it.
        dropout: Share of attention weights dropped.
    """
    assert memory_is_token is None or not is_causal
    mask = None if memory_is_token is None else memory_is_token[:, None, None, :]
    # PyTorch's fused CPU kernel is slower than plain batched products on the way back where it has
    # a mask or bfloat16 (measured: 15 against 10 ms, 20 against 9 ms; docs/log.md).
    on_cpu = queries.device.type == "cpu"
    with sdpa_kernel(SDPBackend.MATH) if on_cpu and queries.requires_grad else nullcontext():
        return nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
        )


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; one product makes queries, keys and values."""

    def __init__(
        self, d_model: int, *, num_heads: int, d_key: int, d_value: int, dropout: float
    ) -> None:
        super().__init__()
        self.num_heads, self.d_key, self.d_value = num_heads, d_key, d_value
        self.dropout = dropout
        self.query_key_value = nn.Linear(d_model, num_heads * (2 * d_key + d_value))
        self.output = nn.Linear(num_heads * d_value, d_model)

    @property
    def widths(self) -> tuple[int, int, int]:
        """How many rows of `query_key_value` belong to queries, keys and values."""
        return (
            self.num_heads * self.d_key,
            self.num_heads * self.d_key,
            self.num_heads * self.d_value,
        )

    def forward(
        self,
        inputs: Float[Tensor, "batch length d_model"],
        *,
        is_token: Bool[Tensor, "batch length"] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch length d_model"]:
        """Returns what each position draws from the positions it may see."""
        queries, keys, values = self._project(inputs)
        heads_BHQV = attend(
            queries,
            keys,
            values,
            memory_is_token=is_token,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
        )
        merged: Tensor = self.output(_merge_heads(heads_BHQV))
        return merged

    def step(
        self, inputs: Float[Tensor, "rows 1 d_model"], cache: LayerCache
    ) -> Float[Tensor, "rows 1 d_model"]:
        """Returns the newest position's output, and adds the position to the cache."""
        queries, keys, values = self._project(inputs)
        keys, values = cache.append(keys, values)
        merged: Tensor = self.output(_merge_heads(attend(queries, keys, values)))
        return merged

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = self.query_key_value(inputs).split(self.widths, dim=-1)
        return (
            _split_heads(queries, self.num_heads),
            _split_heads(keys, self.num_heads),
            _split_heads(values, self.num_heads),
        )


class CrossAttention(nn.Module):
    """Attention of the target to the encoded source."""

    def __init__(
        self, d_model: int, *, num_heads: int, d_key: int, d_value: int, dropout: float
    ) -> None:
        super().__init__()
        self.num_heads, self.d_key, self.d_value = num_heads, d_key, d_value
        self.dropout = dropout
        self.query = nn.Linear(d_model, num_heads * d_key)
        self.key_value = nn.Linear(d_model, num_heads * (d_key + d_value))
        self.output = nn.Linear(num_heads * d_value, d_model)

    @property
    def widths(self) -> tuple[int, int]:
        """How many rows of `key_value` belong to keys and values."""
        return self.num_heads * self.d_key, self.num_heads * self.d_value

    def project_memory(
        self, memory: Float[Tensor, "batch src_len d_model"]
    ) -> tuple[
        Float[Tensor, "batch heads src_len d_key"], Float[Tensor, "batch heads src_len d_value"]
    ]:
        """Returns the source's keys and values, which stay the same for every target step."""
        keys, values = self.key_value(memory).split(self.widths, dim=-1)
        return _split_heads(keys, self.num_heads), _split_heads(values, self.num_heads)

    def forward(
        self,
        inputs: Float[Tensor, "batch tgt_len d_model"],
        keys: Float[Tensor, "batch heads src_len d_key"],
        values: Float[Tensor, "batch heads src_len d_value"],
        source_is_token: Bool[Tensor, "batch src_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Returns what each target position draws from the source."""
        heads_BHTV = attend(
            _split_heads(self.query(inputs), self.num_heads),
            keys,
            values,
            memory_is_token=source_is_token,
            dropout=self.dropout if self.training else 0.0,
        )
        merged: Tensor = self.output(_merge_heads(heads_BHTV))
        return merged

    def step(
        self,
        inputs: Float[Tensor, "rows 1 d_model"],
        cache: LayerCache,
        source_is_token: Bool[Tensor, "batch src_len"],
    ) -> Float[Tensor, "rows 1 d_model"]:
        """Returns each hypothesis's draw from its sentence's source, without copying the source."""
        # Hypotheses of one sentence stand in place of target positions: none sees another here.
        batch_size = source_is_token.shape[0]
        by_sentence = inputs.view(batch_size, -1, inputs.shape[-1])
        attended = self(by_sentence, cache.source_keys, cache.source_values, source_is_token)
        rows: Tensor = attended.view(inputs.shape)
        return rows


def _split_heads(vectors_BLE: Tensor, num_heads: int) -> Tensor:
    batch_size, length, width = vectors_BLE.shape
    return vectors_BLE.view(batch_size, length, num_heads, width // num_heads).transpose(1, 2)


def _merge_heads(heads_BHLE: Tensor) -> Tensor:
    return heads_BHLE.transpose(1, 2).flatten(2)
