"""Sampled segmentations: a pure function of seed, epoch and sentence, of the same text, bounded."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import TokenStore, TokenStoreWriter, make_batch
from mtkit.data.phrasebook import generate_pairs
from mtkit.data.subword_sampling import SegmentationSampler
from mtkit.recipe.tokenizer import SubwordSampling, Tokenizer
from mtkit.text.token_ids import EOS
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

PAIRS = list(generate_pairs("train", 200))
ROWS = np.arange(200)
SOURCES = [f"<BT> {source}" for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]

Make = Callable[..., SegmentationSampler]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> SubwordTokenizer:
    settings = Tokenizer(kind=request.param, vocab_size=300)
    return train_tokenizer(settings, SOURCES, TARGETS, seed=1, tags=["<BT>"])


@pytest.fixture
def store(tokenizer: SubwordTokenizer, tmp_path: Path) -> TokenStore:
    columns = {
        "source": Ragged.of(tokenizer.encode_source(SOURCES)),
        "target": Ragged.of(tokenizer.encode_target(TARGETS)),
    }
    with TokenStoreWriter(tmp_path, tokenizer.vocab_sizes) as writer:
        writer.append(make_batch(columns, tokenizer.vocab_sizes), corpus=0)
    return TokenStore(tmp_path)


@pytest.fixture
def make(store: TokenStore, tokenizer: SubwordTokenizer) -> Make:
    def make_sampler(max_tokens: int = 256, seed: int = 1, **sampling) -> SegmentationSampler:
        settings = SubwordSampling(**{"alpha": 0.2, **sampling})
        return SegmentationSampler(store, tokenizer, settings, max_tokens=max_tokens, seed=seed)

    return make_sampler


def read(sampler: SegmentationSampler, rows=ROWS, epoch: int = 0) -> list[list[list[int]]]:
    return [side.to_lists() for side in sampler.gather(np.asarray(rows), epoch).values()]


def test_it_is_the_same_text(make: Make, tokenizer: SubwordTokenizer) -> None:
    sources, targets = read(make())
    tag = tokenizer.encode_source(["<BT>"])[0][0]
    for tokens, (source, _) in zip(sources, PAIRS, strict=True):
        assert (tokens[0], tokens[-1]) == (tag, EOS)
        # One vocabulary for both sides.
        assert tokenizer.decode_target(tokens[1:]) == source
    assert [tokenizer.decode_target(tokens) for tokens in targets] == TARGETS


def test_a_pure_function_of_seed_epoch_and_sentence(make: Make) -> None:
    sampler = make()
    whole = read(sampler)
    shuffled = np.random.default_rng(1).permutation(200)
    for side, expected in zip(read(make(), shuffled), whole, strict=True):
        assert side == [expected[row] for row in shuffled]
    assert read(sampler, [7])[0] == [whole[0][7]]
    for other in (read(sampler, epoch=1), read(make(seed=2))):
        assert sum(a != b for a, b in zip(other[1], whole[1], strict=True)) > 100


def test_counting_first_changes_nothing(make: Make) -> None:
    sampler, other = make(), make()
    for epoch in (0, 1):
        num_tokens = sampler.count_tokens(ROWS, epoch, "target")
        expected = read(other, epoch=epoch)
        assert read(sampler, epoch=epoch) == expected
        assert num_tokens == sum(map(len, expected[1]))
    # What was counted in one epoch isn't taken for another's.
    assert read(sampler, epoch=0) == read(other, epoch=0)


def test_no_segmentation_is_longer_than_it_may_be(make: Make, store: TokenStore) -> None:
    best = [side.to_lists() for side in store.gather(ROWS).values()]
    for max_growth, max_tokens in ((1.0, 256), (1.25, 256), (3.0, 20)):
        sampler = make(max_tokens, alpha=0.5, max_growth=max_growth)
        all_lengths = store.lengths(ROWS).values()
        for side, lengths, sampled in zip(best, all_lengths, read(sampler), strict=True):
            bounds = sampler.bound(lengths).tolist()
            for shortest, bound, tokens in zip(side, bounds, sampled, strict=True):
                assert bound <= max(len(shortest), min(max_growth * len(shortest), max_tokens))
                assert len(tokens) <= bound
