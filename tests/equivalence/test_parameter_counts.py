"""Models have exactly as many parameters as the papers' architectures.

The networks are built on PyTorch's `meta` device, so none takes memory.
"""

import pytest
import torch

from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model


def _count(vocab_size: int, **keys: object) -> int:
    with torch.device("meta"):
        model = EncoderDecoder(Model(**keys), vocab_size, vocab_size)
    return sum(parameter.numel() for parameter in model.parameters())


BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16}


@pytest.mark.parametrize("vocab_size", [1, 37_000])
def test_base_has_its_count(vocab_size: int) -> None:
    # One attention: 4 (512^2 + 512) = 1,050,624; feed-forward: 2 * 512 * 2048 + 2048 + 512
    # = 2,099,712; one norm: 1,024. Encoder layer: 3,152,384; decoder layer: 4,204,032; six of each.
    assert 6 * (3_152_384 + 4_204_032) == 44_138_496
    assert _count(vocab_size) == 44_138_496 + 512 * vocab_size


@pytest.mark.parametrize("vocab_size", [1, 37_000])
def test_big_has_its_count(vocab_size: int) -> None:
    # One attention: 4 (1024^2 + 1024) = 4,198,400; feed-forward: 2 * 1024 * 4096 + 4096 + 1024
    # = 8,393,728; one norm: 2,048. Encoder layer: 12,596,224; decoder layer: 16,796,672.
    assert 6 * (12_596_224 + 16_796_672) == 176_357_376
    assert _count(vocab_size, **BIG) == 176_357_376 + 1_024 * vocab_size


def test_tiny_has_its_count() -> None:
    # One attention: 4 (128^2 + 128) = 66,048; feed-forward: 2 * 128 * 256 + 256 + 128 = 65,920; one
    # norm: 256. Encoder layer: 132,480; decoder layer: 198,784; four of each.
    tiny = {"num_encoder_layers": 4, "num_decoder_layers": 4, "d_model": 128, "d_ff": 256}
    count = _count(9_712, num_heads=4, **tiny)
    assert count == 4 * (132_480 + 198_784) + 128 * 9_712
    # Wu et al. 2021 (arXiv 2105.14462) print 2.6M for Transformer-Tiny.
    assert f"{count / 1e6:.1f}M" == "2.6M"


# arXiv 1706.03762, table 3, in millions. The paper says only "about 37000 tokens"; a vocabulary of
# 41,000 gives every printed number but that of the big model, while 37,000 gives 2M less.
TABLE_3 = [
    ({}, 65),
    ({"num_heads": 1}, 65),
    ({"num_heads": 32}, 65),
    ({"d_key": 16, "d_value": 64}, 58),
    ({"d_key": 32, "d_value": 64}, 60),
    ({"num_encoder_layers": 2, "num_decoder_layers": 2}, 36),
    ({"num_encoder_layers": 4, "num_decoder_layers": 4}, 50),
    ({"num_encoder_layers": 8, "num_decoder_layers": 8}, 80),
    ({"d_model": 256, "d_key": 32, "d_value": 32}, 28),
    ({"d_model": 1024, "d_key": 128, "d_value": 128}, 168),
    ({"d_ff": 1024}, 53),
    ({"d_ff": 4096}, 90),
]


@pytest.mark.parametrize(("keys", "millions"), TABLE_3, ids=str)
def test_variations_round_to_the_paper_s_table_3(keys: dict[str, int], millions: int) -> None:
    assert round(_count(41_000, **keys) / 1e6) == millions


@pytest.mark.parametrize(("d_key", "fewer"), [(16, 7_091_712), (32, 4_727_808)])
def test_narrower_keys_shrink_queries_and_keys_alone(d_key: int, fewer: int) -> None:
    # 18 attentions lose 2 * 8 * (64 - d_key) rows of 512 weights and a bias: 7M and 5M, as from
    # 65 to 58 and to 60 in arXiv 1706.03762, table 3, rows (B).
    assert 18 * 2 * 8 * (64 - d_key) * 513 == fewer
    assert _count(37_000) - _count(37_000, d_key=d_key, d_value=64) == fewer


def test_untying_adds_matrices_and_a_gate_adds_one() -> None:
    tied = _count(1_000)
    assert _count(1_000, tied_embeddings="decoder") == tied + 512 * 1_000
    assert _count(1_000, tied_embeddings="none") == tied + 2 * 512 * 1_000
    # Twelve gates of 512 * 2048 weights and 2,048 biases.
    assert _count(1_000, activation="swiglu") == tied + 12 * 1_050_624
    # Two final norms of 1,024 parameters.
    assert _count(1_000, norm="pre") == tied + 2 * 1_024
    # One table for the source's positions and one for the target's.
    assert _count(1_000, positions="learned", max_positions=300) == tied + 2 * 300 * 512
