import torch
from torch import Tensor

from mtkit.model.cache import DecoderCache, LayerCache


def _numbered(*first: float) -> Tensor:
    """Returns one position of one head of width 2 per row: [n, n + 0.5] of row n."""
    rows = torch.tensor(first)
    return torch.stack((rows, rows + 0.5), dim=-1)[:, None, None, :]


def _layer(num_sentences: int) -> LayerCache:
    source = torch.arange(float(num_sentences))[:, None, None, None]
    return LayerCache(source.expand(-1, 1, 3, 2), -source.expand(-1, 1, 3, 2))


def test_append_returns_everything_so_far_in_order() -> None:
    layer = _layer(2)
    layer.append(_numbered(1, 2), _numbered(-1, -2))
    layer.append(_numbered(3, 4), _numbered(-3, -4))
    keys, values = layer.append(_numbered(5, 6), _numbered(-5, -6))
    assert keys[:, 0, :, 0].tolist() == [[1, 3, 5], [2, 4, 6]]
    assert keys[:, 0, :, 1].tolist() == [[1.5, 3.5, 5.5], [2.5, 4.5, 6.5]]
    assert values[:, 0, :, 0].tolist() == [[-1, -3, -5], [-2, -4, -6]]


def test_many_appends_keep_all_they_were_given() -> None:
    layer = _layer(2)
    for step in range(100):
        keys, values = layer.append(_numbered(step, -step), _numbered(2 * step, 3 * step))
    assert keys.shape == values.shape == (2, 1, 100, 2)
    assert keys[:, 0, :, 0].tolist() == [list(range(100)), [-step for step in range(100)]]
    assert values[1, 0, :, 0].tolist() == [3 * step for step in range(100)]


def test_select_rows_moves_every_layer_s_targets_and_no_source() -> None:
    cache = DecoderCache([_layer(2), _layer(2)], torch.ones(2, 3, dtype=torch.bool))
    for layer in cache.layers:
        layer.append(_numbered(1, 2), _numbered(-1, -2))
    cache.select_rows(torch.tensor([1, 1, 0]))
    for layer in cache.layers:
        keys, values = layer.append(_numbered(7, 8, 9), _numbered(-7, -8, -9))
        assert keys[:, 0, :, 0].tolist() == [[2, 7], [2, 8], [1, 9]]
        assert values[:, 0, :, 0].tolist() == [[-2, -7], [-2, -8], [-1, -9]]
        assert layer.source_keys.shape[0] == 2


def test_select_sentences_moves_every_layer_s_source_and_no_target() -> None:
    source_is_token = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
    cache = DecoderCache([_layer(3), _layer(3)], source_is_token)
    for layer in cache.layers:
        layer.append(_numbered(1, 2, 3), _numbered(1, 2, 3))
    cache.select_sentences(torch.tensor([2, 0]))
    assert cache.source_is_token.tolist() == [[True, True, True], [True, True, False]]
    for layer in cache.layers:
        assert layer.source_keys[:, 0, 0, 0].tolist() == [2, 0]
        assert layer.source_values[:, 0, 0, 0].tolist() == [-2, 0]
    cache.select_rows(torch.tensor([2, 0]))
    for layer in cache.layers:
        keys, _ = layer.append(_numbered(5, 6), _numbered(5, 6))
        assert keys[:, 0, :, 0].tolist() == [[3, 5], [1, 6]]
