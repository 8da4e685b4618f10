"""Restricted attention in O(window * length): each block of queries meets the keys near it alone.

arXiv 1706.03762, section 4 (Table 1): r neighbours cost O(r n d). A mask over all n * n pairs gives
the same weights at the cost of full attention.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_MIN_BLOCK = 32
"""Queries of a block at least: smaller products cost more than they save."""
_MIN_GAIN = 2.0
"""How many times fewer pairs bands must have, to be worth the copies of keys and values."""

Heads = Float[Tensor, "batch heads length _"]
Bands = Float[Tensor, "_ heads _ _"]
"""Heads of blocks, or of the keys near each."""


def choose_block(length: int, window: int, *, is_causal: bool) -> int:
    """Returns how many queries make a block; 0 where one mask over the whole text is as quick."""
    block = max(_MIN_BLOCK, window)
    width = block + (1 if is_causal else 2) * window
    return block if length >= _MIN_GAIN * width else 0


def cut_into_bands(
    queries: Heads,
    keys: Heads,
    values: Heads,
    is_token: Bool[Tensor, "batch length"] | None,
    *,
    block: int,
    window: int,
    is_causal: bool,
) -> tuple[Bands, Bands, Bands, Bool[Tensor, "_ 1 _ _"]]:
    """Returns blocks of queries, the keys and values near each, and which of these each query sees.

    Blocks lie in the batch, [batch * blocks, heads, block, width of a head], so that whatever
    computes attention computes it block by block.

    Args:
        queries: Of texts, padded at the end.
        keys: As many.
        values: As many.
        is_token: False at padding, which no token sees; None where there is none.
        block: Queries of a block.
        window: Neighbours on either side that a query sees, beside itself.
        is_causal: Whether it sees those before it alone.
    """
    batch, _, length, _ = queries.shape
    num_blocks = -(-length // block)
    after = 0 if is_causal else window
    filling = num_blocks * block - length
    width = window + block + after

    def spread(heads: Heads) -> Bands:
        padded = nn.functional.pad(heads, (0, 0, window, filling + after))
        # [batch, heads, blocks, width of a head, keys of a block]
        near = padded.unfold(2, width, block)
        return near.permute(0, 2, 1, 4, 3).flatten(0, 1)

    longer = nn.functional.pad(queries, (0, 0, 0, filling))
    blocks = longer.view(*longer.shape[:2], num_blocks, block, -1)
    if is_token is None:
        is_token = torch.ones(1, length, dtype=torch.bool, device=queries.device)
    near = nn.functional.pad(is_token, (window, filling + after)).unfold(1, width, block)
    places = torch.arange(width, device=queries.device) - window
    ahead = places - torch.arange(block, device=queries.device)[:, None]
    is_near = (ahead >= -window) & (ahead <= after)
    # Padding may have nothing but padding near it; it sees itself, lest it become NaN.
    is_visible = (near[:, :, None] & is_near) | (ahead == 0)
    is_visible = is_visible.expand(batch, -1, -1, -1).flatten(0, 1)
    return (
        blocks.transpose(1, 2).flatten(0, 1),
        spread(keys),
        spread(values),
        is_visible[:, None],
    )


def join_bands(attended: Bands, *, batch: int, length: int) -> Bands:
    """Returns what the blocks of `cut_into_bands` attended, as texts again."""
    blocks = attended.view(batch, -1, *attended.shape[1:])
    return blocks.transpose(1, 2).flatten(2, 3)[:, :, :length]
