import torch
from torch import Tensor

from mtkit.network.cache import DecoderCache, LayerCache


def _numbered(*first: float) -> Tensor:
    """Returns one hypothesis's position of one head of width 2 per sentence: [n, n + 0.5]."""
    rows = torch.tensor(first)
    return torch.stack((rows, rows + 0.5), dim=-1)[:, None, None, :]


def _layer(num_sentences: int) -> LayerCache:
    source = torch.arange(float(num_sentences))[:, None, None, None]
    return LayerCache(
        source.expand(-1, 1, 3, 2).contiguous(), -source.expand(-1, 1, 3, 2).contiguous()
    )


def _cache(num_sentences: int, num_layers: int = 2) -> DecoderCache:
    return DecoderCache(
        [_layer(num_sentences) for _ in range(num_layers)],
        torch.ones(num_sentences, 3, dtype=torch.bool),
    )


def test_many_appends_keep_all_they_were_given() -> None:
    layer = _layer(2)
    for step in range(100):
        keys, values = layer.append(
            _numbered(step, -step), _numbered(2 * step, 3 * step), first=step, oldest=0
        )
    assert keys.shape == values.shape == (2, 1, 100, 2)
    assert keys[:, 0, :, 0].tolist() == [list(range(100)), [-step for step in range(100)]]
    assert keys[:, 0, :, 1].tolist()[0] == [step + 0.5 for step in range(100)]
    assert values[1, 0, :, 0].tolist() == [3 * step for step in range(100)]


def test_a_hypothesis_sees_the_slots_that_it_descends_from() -> None:
    cache = _cache(1)
    cache.begin_step()
    cache.select([0], torch.tensor([[0, 0]]))
    cache.begin_step()
    assert (cache.newest_slot, cache.find_oldest_slot(None)) == (1, 0)
    # Slot 0 is everybody's, then each has its own.
    assert cache.is_ancestor[0].int().tolist() == [[1, 1, 0], [1, 0, 1]]
    # The second's child comes first, then another of its children, then the first's.
    cache.select([0], torch.tensor([[1, 1, 0]]))
    cache.begin_step()
    assert (cache.newest_slot, cache.find_oldest_slot(None)) == (3, 0)
    bias = cache.find_slot_bias(0, torch.float32)
    assert bias is not None
    assert bias[0, 0].eq(0.0).int().tolist() == [
        [1, 0, 1, 1, 0, 0],
        [1, 0, 1, 0, 1, 0],
        [1, 1, 0, 0, 0, 1],
    ]


def test_nothing_is_hidden_where_there_was_never_more_than_one_hypothesis() -> None:
    cache = _cache(2)
    for step in range(3):
        cache.begin_step()
        assert (cache.newest_slot, cache.find_oldest_slot(None)) == (step, 0)
        assert cache.find_slot_bias(0, torch.float32) is None
        cache.select([0, 1], torch.zeros(2, 1, dtype=torch.long))


def test_slots_beyond_a_window_are_out_of_sight() -> None:
    cache = _cache(1)
    for step in range(5):
        cache.begin_step()
        assert (cache.newest_slot, cache.find_oldest_slot(2)) == (step, max(0, step - 2))
        assert cache.find_slot_bias(max(0, step - 2), torch.float32) is None
    cache.select([0], torch.tensor([[0, 0]]))
    cache.begin_step()
    # The two steps before, and one slot for each of two hypotheses.
    assert (cache.newest_slot, cache.find_oldest_slot(2)) == (5, 3)
    bias = cache.find_slot_bias(3, torch.float32)
    assert bias is not None
    assert bias[0, 0].eq(0.0).int().tolist() == [[1, 1, 1, 0], [1, 1, 0, 1]]


def test_a_bias_within_a_window_begins_where_cuda_s_kernels_may_read() -> None:
    cache = _cache(1)
    for _ in range(7):
        cache.begin_step()
        cache.select([0], torch.tensor([[0, 0, 0]]))
        oldest = cache.find_oldest_slot(1)
        bias = cache.find_slot_bias(oldest, torch.float32)
        if bias is not None:
            # They read a mask 16 bytes at a time; a slice behind 1, 4, 7 ... slots of 4 bytes would
            # begin 4, 16, 28 ... bytes behind such an address.
            assert bias.storage_offset() == 0
            assert bias.data_ptr() % 16 == 0
            assert bias.shape[-1] == cache.is_ancestor.shape[2] - oldest
            # Made once for all layers.
            assert cache.find_slot_bias(oldest, torch.float32) is bias
    assert oldest % 4


def test_a_sentence_that_is_dropped_gives_its_place_to_the_last() -> None:
    source_is_token = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
    given = source_is_token.clone()
    cache = DecoderCache([_layer(3), _layer(3)], source_is_token)
    cache.begin_step()
    for layer in cache.layers:
        layer.append(_numbered(1, 2, 3), _numbered(-1, -2, -3), first=0, oldest=0)
    cache.select([2, 1], torch.zeros(2, 1, dtype=torch.long))
    assert cache.source_is_token.tolist() == [[True, True, True], [True, False, False]]
    # Whoever holds the same tensor isn't told.
    assert source_is_token.equal(given)
    cache.begin_step()
    for layer in cache.layers:
        assert layer.source_keys[:, 0, 0, 0].tolist() == [2, 1]
        assert layer.source_values[:, 0, 0, 0].tolist() == [-2, -1]
        keys, values = layer.append(_numbered(5, 6), _numbered(7, 8), first=1, oldest=0)
        assert keys[:, 0, :, 0].tolist() == [[3, 5], [2, 6]]
        assert values[:, 0, :, 0].tolist() == [[-3, 7], [-2, 8]]


def test_sentences_may_be_selected_in_any_order() -> None:
    cache = _cache(3)
    cache.begin_step()
    for layer in cache.layers:
        layer.append(_numbered(1, 2, 3), _numbered(1, 2, 3), first=0, oldest=0)
    cache.select([1, 0, 1], torch.zeros(3, 1, dtype=torch.long))
    for layer in cache.layers:
        assert layer.source_keys[:, 0, 0, 0].tolist() == [1, 0, 1]
        assert layer.target_keys is not None
        assert layer.target_keys[:, 0, 0, 0].tolist() == [2, 1, 2]
