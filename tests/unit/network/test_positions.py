import math

import pytest
import torch
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from mtkit.network.embeddings import LearnedPositions, SinusoidalPositions, sinusoids


def test_sinusoids_of_four_places_are_the_paper_s() -> None:
    # arXiv 1706.03762, section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/4)), PE(pos, 2i+1) its
    # cosine; 10000^(2/4) = 100, so position 2 turns by 2 and by 0.02. Digits from a table of sines.
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004],
        [0.9092974268, -0.4161468365, 0.0199986667, 0.9998000067],
    ]
    torch.testing.assert_close(sinusoids(3, 4), torch.tensor(expected), rtol=0, atol=1e-7)


def test_sinusoids_of_the_base_model_are_the_paper_s_far_out() -> None:
    table = sinusoids(5001, 512)
    assert table.shape == (5001, 512)
    assert table.dtype == torch.float32
    for position, place in [(1, 510), (37, 100), (5000, 2), (5000, 301), (4999, 511)]:
        angle = position / 10_000 ** (2 * (place // 2) / 512)
        expected = math.cos(angle) if place % 2 else math.sin(angle)
        assert table[position, place].item() == pytest.approx(expected, abs=1e-7)


def test_positions_start_where_they_are_asked_to() -> None:
    positions = SinusoidalPositions(6)
    torch.testing.assert_close(positions(4, 3), sinusoids(7, 6)[4:], rtol=0, atol=0)


@pytest.mark.parametrize(("first", "length"), [(0, 257), (255, 2), (300, 1), (0, 2000), (5000, 4)])
def test_sinusoidal_positions_have_no_end(first: int, length: int) -> None:
    positions = SinusoidalPositions(6)
    expected = sinusoids(first + length, 6)[first:]
    torch.testing.assert_close(positions(first, length), expected, rtol=0, atol=0)
    torch.testing.assert_close(positions(0, 5), sinusoids(5, 6), rtol=0, atol=0)


def test_a_grown_table_keeps_its_number_type() -> None:
    positions = SinusoidalPositions(6).double()
    assert positions(0, 300).dtype == torch.float64


def test_a_table_grown_without_gradients_serves_training_afterwards() -> None:
    positions = SinusoidalPositions(6)
    with torch.inference_mode():
        positions(0, 300)
    vectors = torch.ones(300, 6, requires_grad=True)
    (vectors + positions(0, 300)).square().sum().backward()
    torch.testing.assert_close(vectors.grad, 2 * (1 + sinusoids(300, 6)))


def test_sinusoids_are_neither_trained_nor_saved() -> None:
    positions = SinusoidalPositions(6)
    assert list(positions.parameters()) == []
    assert positions.state_dict() == {}


def test_learned_positions_are_rows_of_their_matrix() -> None:
    positions = LearnedPositions(5, 2)
    with torch.no_grad():
        positions.weight.copy_(torch.arange(10.0).view(5, 2))
    assert positions(3, 2).tolist() == [[6.0, 7.0], [8.0, 9.0]]


@pytest.mark.parametrize(("first", "length"), [(0, 6), (5, 1), (4, 2)])
def test_learned_positions_past_the_end_are_refused(first: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"position 5 requested.*only 5 \(model\.max_positions\)"):
        LearnedPositions(5, 2)(first, length)


def test_halves_are_marian_s() -> None:
    marian = MarianSinusoidalPositionalEmbedding(300, 10)
    positions = SinusoidalPositions(10, kind="halves")
    torch.testing.assert_close(positions(0, 300), marian.create_weight())


def test_tensor2tensor_s_from_2_on_are_m2m100_s() -> None:
    # fairseq's padding has index 1, and positions count from the next.
    m2m100 = M2M100SinusoidalPositionalEmbedding(300, 10, padding_idx=1)
    positions = SinusoidalPositions(10, kind="tensor2tensor", first_position=2)
    expected = m2m100(torch.full((1, 300), 5))[0]
    torch.testing.assert_close(positions(0, 300), expected, rtol=0.0, atol=1e-4)
    assert torch.equal(positions(7, 2), positions(0, 9)[7:])


def test_the_narrowest_of_tensor2tensor_s_is_one_wave() -> None:
    torch.testing.assert_close(
        sinusoids(3, 2, "tensor2tensor"),
        torch.tensor([[math.sin(p), math.cos(p)] for p in range(3)]),
    )
