"""Which target pieces a source piece is translated by: IBM model 1 over prepared pairs.

The model is Brown et al. 1993 (section 4.2), p(target piece | source piece) by expectation
maximisation, where the source's `</s>` stands for the empty word. Target pieces are ranked by that
times the share of their own count that the source piece explains: pieces within words, which are
seldom, get into the lists of more sources than by the first factor alone (docs/log.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.data.batches.token_store import TokenStore
from mtkit.text.shortlist import MAX_FREQUENT, MAX_TRANSLATIONS, Shortlist
from mtkit.text.token_ids import SPECIAL_PIECES

_BLOCK_PAIRS = 10_000
_ENOUGH = 500
"""A pair is looked at only if it has a source piece that was seen less often than this."""
_MAX_CELLS = 12_000_000
"""Source tokens times target tokens, summed over pairs: some 400 MB."""
_NUM_ITERATIONS = 3


def make_shortlist(
    store: TokenStore, vocab_sizes: tuple[int, int], *, is_joint: bool, max_cells: int = _MAX_CELLS
) -> Shortlist:
    """Returns the table of translations that pairs of sentences show.

    Of a large corpus as many pairs are looked at as memory allows, in random order, those with
    source pieces that were seldom seen so far alone.

    Args:
        store: Pairs of sentences, in the columns `source` and `target`.
        vocab_sizes: Number of source and of target pieces.
        is_joint: Whether both sides have one vocabulary: then each piece is its own translation,
            too, since names are copied.
        max_cells: Bound on what is held in memory: source tokens times target tokens, summed up.
    """
    sample = _choose_pairs(store, vocab_sizes[0], max_cells)
    table = _estimate(sample, vocab_sizes[1])
    sources, targets = table.sources, table.targets
    if is_joint:
        own = np.arange(len(SPECIAL_PIECES), vocab_sizes[0])
        sources, targets = np.concatenate((own, sources)), np.concatenate((own, targets))
        is_other = np.concatenate((np.ones(len(own), bool), table.sources != table.targets))
        sources, targets = sources[is_other], targets[is_other]
    order = np.argsort(sources, kind="stable")
    sources, targets = sources[order], targets[order]
    ends = np.cumsum(np.bincount(sources, minlength=vocab_sizes[0]))
    frequent = np.argsort(-_count_targets(store, vocab_sizes[1]), kind="stable")
    whole = Shortlist(frequent.astype(np.int32), targets.astype(np.int32), ends)
    return whole.limit(MAX_FREQUENT, MAX_TRANSLATIONS)


@dataclass(frozen=True)
class _Table:
    """Source and target pieces that go together; of equal source pieces the likeliest first."""

    sources: Indices
    targets: Indices


def _choose_pairs(
    store: TokenStore, num_source_pieces: int, max_cells: int
) -> tuple[Ragged, Ragged]:
    """Returns source and target of the pairs to look at, within the bound."""
    order = np.random.default_rng(0).permutation(len(store))
    seen = np.zeros(num_source_pieces, dtype=np.int64)
    chosen: list[Indices] = []
    num_cells = 0
    for first in range(0, len(order), _BLOCK_PAIRS):
        rows = order[first : first + _BLOCK_PAIRS]
        found = store.gather(rows)
        source, target = found["source"], found["target"]
        firsts = np.cumsum(source.lengths) - source.lengths
        is_new = np.minimum.reduceat(seen[source.tokens], firsts) < _ENOUGH
        cells = np.cumsum(source.lengths * target.lengths * is_new) + num_cells
        is_new &= cells <= max_cells
        chosen.append(rows[is_new])
        of_chosen = source.tokens[np.repeat(is_new, source.lengths)]
        seen += np.bincount(of_chosen, minlength=num_source_pieces)
        num_cells = int(cells[-1])
        if num_cells > max_cells:
            break
    pairs = store.gather(np.concatenate(chosen))
    return pairs["source"], pairs["target"]


def _estimate(pairs: tuple[Ragged, Ragged], num_target_pieces: int) -> _Table:
    """Returns the likely translations of each source piece by IBM model 1."""
    source, target = pairs
    # Cells stand by pair, by target token, by source token.
    widths = np.repeat(source.lengths, target.lengths)
    starts = np.repeat(np.cumsum(source.lengths) - source.lengths, target.lengths)
    cells = source.tokens[join_ranges(starts, widths)] * num_target_pieces
    cells += np.repeat(target.tokens, widths)
    kinds, cells = np.unique(cells, return_inverse=True)
    of_source = kinds // num_target_pieces
    firsts = np.cumsum(widths) - widths
    probabilities = np.ones(len(kinds))
    for _ in range(_NUM_ITERATIONS):
        shares = probabilities[cells]
        shares /= np.repeat(np.add.reduceat(shares, firsts), widths)
        counts = np.bincount(cells, shares, minlength=len(kinds))
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    of_target = kinds % num_target_pieces
    explained = counts / np.bincount(of_target, counts)[of_target]
    order = np.lexsort((-probabilities * explained, of_source))
    return _Table(of_source[order], of_target[order])


def _count_targets(store: TokenStore, num_target_pieces: int) -> NDArray[np.int64]:
    """Returns how often each target piece occurs."""
    counts = np.zeros(num_target_pieces, dtype=np.int64)
    for first in range(0, len(store), _BLOCK_PAIRS):
        rows = np.arange(first, min(first + _BLOCK_PAIRS, len(store)))
        tokens = store.gather(rows, ["target"])["target"].tokens
        counts += np.bincount(tokens, minlength=num_target_pieces)
    return counts
