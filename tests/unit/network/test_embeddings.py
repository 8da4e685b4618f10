import pytest
import torch

from mtkit.data.batches.collate import pack
from mtkit.data.batches.ragged import Ragged
from mtkit.network import PaddedLayout
from mtkit.network.embeddings import InputEmbedding, TokenEmbedding
from mtkit.recipe.model import Model


def _config(**keys: object) -> Model:
    return Model(**{"d_model": 4, "num_heads": 1, "dropout": 0.0, **keys})


def _tokens(**keys: object) -> TokenEmbedding:
    embedding = TokenEmbedding(_config(**keys), 3)
    with torch.no_grad():
        embedding.weight.copy_(torch.arange(12.0).view(3, 4))
    return embedding


def _hundreds() -> InputEmbedding:
    """Position p is 100 p in every number."""
    embedding = InputEmbedding(_config(positions="learned", max_positions=5), _tokens())
    with torch.no_grad():
        embedding.positions.weight.copy_(100.0 * torch.arange(5.0)[:, None].expand(5, 4))
    return embedding


def test_tokens_are_scaled_by_the_root_of_the_width() -> None:
    # sqrt(4) = 2 (arXiv 1706.03762, section 3.4).
    assert _tokens()(torch.tensor([[2, 0]])).tolist() == [[[16, 18, 20, 22], [0, 2, 4, 6]]]


def test_positions_are_added() -> None:
    embedding = _hundreds()
    tokens = torch.tensor([[0, 1], [1, 1]])
    assert embedding(tokens, PaddedLayout.without_padding(tokens))[0].tolist() == [
        [0, 2, 4, 6],
        [108, 110, 112, 114],
    ]
    # A step's hypotheses all stand at one position.
    assert embedding.step(tokens, 3)[0].tolist() == [[300, 302, 304, 306], [308, 310, 312, 314]]


def test_sinusoids_are_not_scaled() -> None:
    embedding = InputEmbedding(_config(), _tokens())
    tokens = torch.tensor([[1]])
    # Position 0 is sin 0, cos 0, sin 0, cos 0.
    assert embedding(tokens, PaddedLayout.without_padding(tokens)).tolist() == [[[8, 11, 12, 15]]]


def test_dropout_acts_on_the_sum() -> None:
    torch.manual_seed(12)
    embedding = InputEmbedding(_config(dropout=0.5), _tokens())
    tokens = torch.ones(50, 20, dtype=torch.long)
    layout = PaddedLayout.without_padding(tokens)
    # Positions alone would keep every sum from being 0: 8 to 14 stand below waves of height 1.
    share = (embedding(tokens, layout) == 0).double().mean().item()
    # Five standard deviations of 4,000 coins.
    assert share == pytest.approx(0.5, abs=0.04)
    assert (embedding.eval()(tokens, layout) > 0).all()


def test_positions_begin_again_with_every_sentence_of_a_row() -> None:
    embedding = _hundreds()
    batch = pack(Ragged.of([[0, 0, 0], [0, 0]]), Ragged.of([[0], [0]]))
    found = embedding(batch.source_tokens, batch.source_layout)
    assert found[0, :5, 0].tolist() == [0, 100, 200, 0, 100]


def test_tokens_may_go_in_as_they_are() -> None:
    tokens = _tokens(scale_embeddings=False)
    assert tokens(torch.tensor([[2, 0]])).tolist() == [[[8, 9, 10, 11], [0, 1, 2, 3]]]


def test_a_norm_stands_between_the_sum_and_dropout() -> None:
    # As mBART's: layernorm_embedding(tokens + positions).
    plain = InputEmbedding(_config(), _tokens())
    normed = InputEmbedding(_config(embedding_norm=True), _tokens())
    tokens = torch.tensor([[1, 2, 0]])
    layout = PaddedLayout.without_padding(tokens)
    expected = torch.nn.functional.layer_norm(plain(tokens, layout), (4,))
    torch.testing.assert_close(normed(tokens, layout), expected)
