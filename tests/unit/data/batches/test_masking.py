"""Masked tokens: how many, which, and what takes their place."""

import numpy as np
import pytest

from mtkit.data.batches.masking import MaskedTokens, TokenMasker
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.segments import Segments
from mtkit.errors import MtkitError
from mtkit.recipe.masking import Masking
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.token_ids import BOS, EOS
from mtkit.text.train_tokenizer import train_tokenizer

MASK, PIECES = 4, np.arange(5, 105)


def one_segment(sizes: list[int]) -> Segments:
    """Returns inputs of `<s>`, so many tokens of text, `</s>`; token i is the piece 5 + i."""
    rows = [[BOS, *(5 + np.arange(size) % 100).tolist(), EOS] for size in sizes]
    tokens = Ragged.of(rows)
    is_text = (tokens.tokens != BOS) & (tokens.tokens != EOS)
    nothing = np.zeros_like(tokens.tokens)
    return Segments(tokens, nothing, np.flatnonzero(is_text), np.array(sizes), None)


def masker(**keys: float) -> TokenMasker:
    return TokenMasker(Masking(**keys), mask_token=MASK, pieces=PIECES, words=(1,))


def hide(sizes: list[int], *, epoch: int = 0, rows=None, **keys: float) -> MaskedTokens:
    numbers = np.arange(len(sizes)) if rows is None else np.array(rows)
    return masker(**keys).mask(one_segment(sizes), numbers, epoch)


@pytest.mark.parametrize(
    ("size", "share", "count"),
    # By hand: 15 % of 20 is 3; of 510, 76.5, and of 511, 76.65; of 3, 0.45; one token may be all.
    [(20, 0.15, 3), (23, 0.15, 3), (24, 0.15, 4), (511, 0.15, 77), (3, 0.15, 1), (1, 0.15, 1)],
)
def test_the_share_is_exact_in_every_block(size: int, share: float, count: int) -> None:
    for epoch in range(5):
        hidden = hide([size] * 30, epoch=epoch, share=share)
        per_block = np.bincount(hidden.indices // (size + 2), minlength=30)
        assert per_block.tolist() == [count] * 30
        assert (np.diff(hidden.indices) > 0).all()


def test_half_a_token_goes_to_the_even_number() -> None:
    # As Python's round(), which the authors' code calls: 15 % of 10 is 1.5, of 30, 4.5.
    assert masker().count(np.array([10, 30, 50, 70])).tolist() == [2, 4, 8, 10]


def test_begin_and_end_are_never_hidden() -> None:
    hidden = hide([1, 2, 5, 40] * 200, share=0.9)
    tokens = one_segment([1, 2, 5, 40] * 200).tokens.tokens
    special = (tokens == BOS) | (tokens == EOS)
    assert (hidden.inputs[special] == tokens[special]).all()
    assert not special[hidden.indices].any()
    assert (hidden.outputs == tokens[hidden.indices]).all()
    untouched = np.ones(len(tokens), dtype=bool)
    untouched[hidden.indices] = False
    assert (hidden.inputs[untouched] == tokens[untouched]).all()


def test_eighty_ten_ten() -> None:
    hidden = hide([400] * 800)
    inputs, outputs = hidden.inputs[hidden.indices], hidden.outputs
    count = len(outputs)
    assert count == 60 * 800
    # A random piece is the old one in one of 100 draws: 0.1 + 0.1 / 100 stay. Five deviations.
    for share, found in ((0.8, inputs == MASK), (0.101, inputs == outputs)):
        assert abs(found.mean() - share) < 5 * (share * (1 - share) / count) ** 0.5
    replaced = inputs[(inputs != MASK) & (inputs != outputs)]
    assert set(replaced) <= set(PIECES)
    # Chi-square of 99 degrees of freedom: 200 is far beyond one in a million.
    expected = len(replaced) / len(PIECES)
    counts = np.bincount(replaced, minlength=105)[5:]
    assert ((counts - expected) ** 2 / expected).sum() < 200


@pytest.mark.parametrize(
    ("mask", "random", "share_of_masks", "share_of_others"), [(1.0, 0.0, 1, 0), (0.0, 1.0, 0, 1)]
)
def test_other_shares(mask: float, random: float, share_of_masks, share_of_others) -> None:
    hidden = hide([100] * 50, mask=mask, random=random)
    inputs = hidden.inputs[hidden.indices]
    assert (inputs == MASK).mean() == share_of_masks
    assert (inputs != hidden.outputs).mean() == pytest.approx(1, abs=0.05)
    assert ((inputs != MASK) & (inputs >= 5)).mean() == share_of_others


def test_every_place_is_as_likely_and_pairs_of_places_too() -> None:
    # 15 % of 12 are two: 66 pairs of places, all as likely.
    hidden = hide([12] * 6_600)
    places = (hidden.indices % 14 - 1).reshape(-1, 2)
    pairs = np.zeros((12, 12))
    np.add.at(pairs, (places[:, 0], places[:, 1]), 1)
    found = pairs[np.triu_indices(12, 1)]
    assert found.sum() == 6_600
    # Chi-square of 65 degrees of freedom.
    assert ((found - 100.0) ** 2 / 100.0).sum() < 150


def test_what_is_hidden_depends_on_seed_epoch_and_block_alone() -> None:
    whole = hide([50] * 8)
    part = hide([50] * 3, rows=[6, 2, 3])
    cut = [whole.inputs.reshape(8, 52)[row].tolist() for row in (6, 2, 3)]
    assert part.inputs.reshape(3, 52).tolist() == cut
    assert hide([50] * 8, epoch=1).inputs.tolist() != whole.inputs.tolist()
    other = TokenMasker(Masking(), mask_token=MASK, pieces=PIECES, words=(2,))
    again = other.mask(one_segment([50] * 8), np.arange(8), 0)
    assert again.inputs.tolist() != whole.inputs.tolist()


def test_random_pieces_are_ordinary_ones_of_the_vocabulary() -> None:
    lines = ["the quick brown fox jumps over the lazy dog"]
    for symbols in (("<mask>", "<other>"), ()):
        tokenizer = train_tokenizer(
            Tokenizer(vocab_size=40, user_symbols=symbols), lines, lines, seed=1
        )
        if not symbols:
            with pytest.raises(MtkitError, match="the tokenizer has no piece <mask>"):
                TokenMasker.of(Masking(), tokenizer, words=(1,))
            continue
        found = TokenMasker.of(Masking(mask=0.0, random=1.0), tokenizer, words=(1,))
        hidden = found.mask(one_segment([30] * 500), np.arange(500), 0)
        drawn = set(hidden.inputs[hidden.indices].tolist())
        vocabulary = tokenizer.source_vocabulary
        special = {0, 1, 2, 3, vocabulary.id_of("<mask>")}
        assert drawn == set(range(len(vocabulary))) - special
