"""Each layout attends within each sentence by itself, by the formula one sentence at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack, pack_side
from mtkit.data.batches.ragged import Ragged
from mtkit.network import Layout
from mtkit.network.layouts import UnpaddedLayout
from mtkit.network.scaled_dot_product import AttentionOptions
from mtkit.text.token_ids import EOS

from ...padded import pad_pairs

SOURCE, TARGET = [4, 1, 3], [2, 5, 3]
"""Lengths of three sentences."""
NUM_HEADS, D_KEY, D_VALUE = 2, 3, 4
MAKE = {
    "padded": pad_pairs,
    "grids": lambda source, target: lay_out(source, target, [2, 1], row_step=4),
    "packed": pack,
    "unpadded": lambda source, target: _without_padding(pad_pairs(source, target)),
}
with_every_layout = pytest.mark.parametrize("kind", MAKE)


def _without_padding(batch: TranslationBatch) -> TranslationBatch:
    return replace(
        batch,
        source_layout=UnpaddedLayout.of(batch.source_layout),
        target_layout=UnpaddedLayout.of(batch.target_layout),
    )


def _layouts(kind: str) -> tuple[Layout, Layout]:
    sides = (Ragged.of([[5] * (n - 1) + [EOS] for n in lengths]) for lengths in (SOURCE, TARGET))
    batch = MAKE[kind](*sides)
    return batch.source_layout, batch.target_layout


def _spread(rows: Tensor, layout: Layout) -> Tensor:
    """Returns rows of real tokens where a layout has them, and numbers that matter nowhere else."""
    indices = torch.arange(float(layout.shape[0] * layout.shape[1])).view(*layout.shape, 1)
    real = layout.select_tokens(indices)[:, 0].long()
    spread = torch.full((indices.numel(), rows.shape[1]), 9.0, dtype=rows.dtype)
    return spread.index_put((real,), rows).view(*layout.shape, -1)


def _attend_by_hand(
    queries: Tensor, keys: Tensor, values: Tensor, *, is_causal: bool, window: int | None
) -> Tensor:
    """softmax(Q K^T / sqrt(d_key)) V of one sentence and head."""
    ahead = torch.arange(len(keys)) - torch.arange(len(queries))[:, None]
    hides = (ahead > 0) & is_causal
    if window is not None:
        hides |= ahead.abs() > window
    scores = (queries @ keys.T / D_KEY**0.5).masked_fill(hides, -torch.inf)
    return scores.exp() / scores.exp().sum(dim=1, keepdim=True) @ values


@with_every_layout
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    ("is_causal", "window", "crosses"),
    [
        (False, None, False),
        (True, None, False),
        (False, 1, False),
        (True, 2, False),
        (False, None, True),
    ],
)
def test_attention_is_the_formula_s_within_each_sentence(
    kind: str, is_causal: bool, window: int | None, *, crosses: bool, trains: bool
) -> None:
    torch.manual_seed(1)
    source, target = _layouts(kind)
    memory, lengths = (source, SOURCE) if crosses else (target, TARGET)
    widths = NUM_HEADS * D_KEY, NUM_HEADS * D_VALUE
    queries = torch.randn(sum(TARGET), widths[0], dtype=torch.float64, requires_grad=trains)
    fused = torch.randn(sum(lengths), sum(widths), dtype=torch.float64, requires_grad=trains)
    (query_heads,) = target.split_heads(_spread(queries, target), NUM_HEADS, widths[:1])
    heads = memory.split_heads(_spread(fused, memory), NUM_HEADS, widths)
    attended = target.attend(query_heads, *heads, memory, AttentionOptions(is_causal, window))
    found = target.select_tokens(attended)
    expected = torch.cat(
        [
            torch.cat(
                [
                    _attend_by_hand(
                        one_queries[:, head * D_KEY :][:, :D_KEY],
                        one_fused[:, head * D_KEY :][:, :D_KEY],
                        one_fused[:, widths[0] + head * D_VALUE :][:, :D_VALUE],
                        is_causal=is_causal,
                        window=window,
                    )
                    for head in range(NUM_HEADS)
                ],
                dim=1,
            )
            for one_queries, one_fused in zip(
                queries.split(TARGET), fused.split(lengths), strict=True
            )
        ]
    )
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-12)
    if trains:
        direction = torch.randn_like(expected)
        for ours, theirs in zip(
            torch.autograd.grad(found, (queries, fused), direction),
            torch.autograd.grad(expected, (queries, fused), direction),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-12)


@with_every_layout
def test_positions_count_each_sentence_s_tokens_from_0(kind: str) -> None:
    source, _ = _layouts(kind)
    positions = source.positions.expand(source.shape)[..., None].float()
    assert source.select_tokens(positions)[:, 0].tolist() == [0, 1, 2, 3, 0, 0, 1, 2]
    assert source.max_length == 4
    moved = source.to(torch.device("cpu"))
    assert moved.shape == source.shape
    assert torch.equal(moved.positions, source.positions)


def test_packed_attention_drops_its_share_of_the_weights() -> None:
    torch.manual_seed(4)
    layout = pack_side(np.full(100, 50), [2] * 50)
    heads = layout.split_heads(torch.ones(50, 104, 12), 2, (4, 4, 4))
    attended = layout.select_tokens(layout.attend(*heads, layout, AttentionOptions(dropout=0.3)))
    # Each of 10,000 queries keeps some of 50 equal weights, and scales them up.
    assert attended.mean().item() == pytest.approx(1.0, abs=0.005)
    assert attended.var().item() == pytest.approx(0.3 / 0.7 / 50, rel=0.1)


@with_every_layout
def test_the_first_token_of_each_sentence_in_their_order(kind: str) -> None:
    layout, _ = _layouts(kind)
    # Eight tokens of three sentences, numbered one after the other: 4, 1 and 3 of them.
    states = _spread(torch.arange(8.0)[:, None], layout)
    assert layout.select_first(states).tolist() == [[0.0], [4.0], [5.0]]
