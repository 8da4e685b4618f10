"""Epochs: nothing lost or twice, budgets kept, weights to the letter, chance seeded and fair."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batches.updates import plan_epoch

from .stores import order_lengths

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


def plan(order, **changes):
    settings = {
        "weights": [1.0],
        "batch_tokens": 120,
        "length_groups": 3,
        "seed": 1,
        "epoch": 0,
        **changes,
    }
    return plan_epoch(order, **settings)


def seen(order, **changes) -> Counter[int]:
    return Counter(row for update in plan(order, **changes) for row in update.tolist())


def draw_lengths(count: int = 500, seed: int = 4):
    generator = np.random.default_rng(seed)
    source = generator.integers(2, 30, count)
    return source, np.clip(source + generator.integers(-3, 4, count), 1, None)


@pytest.fixture(scope="module")
def lengths():
    return draw_lengths()


@pytest.fixture(scope="module")
def order(tmp_path_factory, lengths):
    return order_lengths(tmp_path_factory.mktemp("store"), [lengths])


@given(LENGTHS, st.integers(1, 4), st.integers(0, 3))
def test_an_epoch_holds_every_sentence_once_within_its_budget(
    tmp_path_factory, lengths, length_groups, epoch
) -> None:
    source, target = (np.array(side) for side in zip(*lengths, strict=True))
    order = order_lengths(tmp_path_factory.mktemp("store"), [(source, target)])
    updates = plan(order, length_groups=length_groups, epoch=epoch)
    assert sorted(np.concatenate(updates).tolist()) == list(range(len(lengths)))
    for update in updates:
        assert source[update].sum() <= 120
        assert target[update].sum() <= 120


def test_a_group_is_as_full_as_its_budget_allows(tmp_path) -> None:
    # By hand, at 8 tokens a group: (1,1) (3,1) (3,1), then one more token on each side, then
    # target 4 with sources falling. 1+3+3 sources fit and 2 more don't; 2+4 targets fit, 4 don't.
    source, target = np.array([3, 1, 3, 2, 3, 1]), np.array([1, 1, 1, 2, 4, 4])
    order = order_lengths(tmp_path, [(source, target)])
    updates = plan(order, batch_tokens=8, length_groups=1)
    # Targets of 2 come second and so fall; 4 rises again: (4,1) before (4,3).
    assert sorted(sorted(update.tolist()) for update in updates) == [[0, 1, 2], [3, 5], [4]]


def test_a_sentence_beyond_the_budget_is_alone(tmp_path) -> None:
    order = order_lengths(tmp_path, [(np.array([9, 9, 1]), np.array([1, 1, 1]))])
    updates = plan(order, batch_tokens=8, length_groups=1)
    assert sorted(update.tolist() for update in updates) == [[0], [1], [2]]


def test_the_order_depends_on_seed_and_epoch_alone(order) -> None:
    def listed(**changes):
        return [update.tolist() for update in plan(order, **changes)]

    first = listed()
    assert first == listed()
    assert first != listed(epoch=1)
    assert first != listed(seed=2)


def test_any_update_can_be_asked_for_alone(order) -> None:
    updates = plan(order)
    listed = [update.tolist() for update in updates]
    for place in (len(updates) - 1, 3, 0):
        assert plan(order)[place].tolist() == listed[place]
    assert updates[-1].tolist() == listed[-1]
    assert [update.tolist() for update in updates[2:5]] == listed[2:5]
    with pytest.raises(IndexError):
        updates[len(updates)]


def test_which_sentences_share_an_update_changes_between_epochs(order) -> None:
    partners = [
        next(frozenset(u.tolist()) for u in plan(order, epoch=e) if 0 in u.tolist())
        for e in range(4)
    ]
    assert len(set(partners)) == 4


def test_one_group_is_alike_in_length_and_several_are_not(order, lengths) -> None:
    spreads = {
        groups: np.mean([np.ptp(lengths[1][u]) for u in plan(order, length_groups=groups)])
        for groups in (1, 4)
    }
    assert spreads[1] < 3 < spreads[4]


def test_updates_come_in_no_order_of_length(order, lengths) -> None:
    means = np.array([lengths[1][update].mean() for update in plan(order, length_groups=1)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


def test_a_sentence_stands_anywhere_in_an_epoch_whatever_the_one_before(tmp_path) -> None:
    count = 4_000
    order = order_lengths(tmp_path, [draw_lengths(count)])
    places = []
    for epoch in range(4):
        place = np.empty(count)
        for number, update in enumerate(plan(order, epoch=epoch)):
            place[update] = number
        places.append(place)
    # Sentences of a group share their place, so there are about as many draws as groups: 4,000
    # sentences of 16 tokens in groups of 40 are 1,600, and four deviations are 0.1.
    for before, after in pairwise(places):
        assert abs(np.corrcoef(before, after)[0, 1]) < 0.1


def test_each_sentence_of_a_class_falls_into_each_group_equally_often(tmp_path) -> None:
    # 12 sentences of 10 tokens, 3 to a group of 30, 4 groups, all in the one update of the epoch.
    order = order_lengths(tmp_path, [(np.full(12, 10), np.full(12, 10))])
    counts = np.zeros((12, 4))
    num_epochs = 500
    for epoch in range(num_epochs):
        [update] = plan(order, batch_tokens=120, length_groups=4, epoch=epoch)
        for group, sentences in enumerate(np.split(update, 4)):
            counts[sentences, group] += 1
    # 125 expected of each of 48 counts, with a deviation of sqrt(500 * 1/4 * 3/4) = 9.7.
    assert abs(counts - num_epochs / 4).max() < 4.5 * 9.7


WEIGHTS = st.sampled_from([0.0, 0.001, 0.1, 0.25, 1 / 3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.3])


@given(
    st.lists(st.tuples(LENGTHS, WEIGHTS), min_size=1, max_size=3).filter(
        lambda corpora: any(weight for _, weight in corpora)
    ),
    st.integers(0, 5),
    st.integers(1, 12),
)
@settings(max_examples=60)
def test_weights_over_epochs(tmp_path_factory, corpora, first_epoch, num_epochs) -> None:
    corpus_lengths = [np.array(lengths).T for lengths, _ in corpora]
    weights = [weight for _, weight in corpora]
    order = order_lengths(tmp_path_factory.mktemp("store"), corpus_lengths)
    total: Counter[int] = Counter()
    ends = np.cumsum([side.shape[1] for side in corpus_lengths])
    strata: dict[tuple[int, ...], list[int]] = {}
    for row in range(ends[-1]):
        corpus = int(np.searchsorted(ends, row, side="right"))
        place = row - (ends[corpus - 1] if corpus else 0)
        strata.setdefault((corpus, *corpus_lengths[corpus][:, place]), []).append(row)
    for epoch in range(first_epoch, first_epoch + num_epochs):
        counts = seen(order, weights=weights, epoch=epoch)
        total += counts
        for (corpus, *_), rows in strata.items():
            # The stratum's number is exact up to rounding, and so is each of its pairs'.
            drawn = sum(counts[row] for row in rows)
            assert abs(drawn - len(rows) * weights[corpus]) < 1
            for row in rows:
                assert abs(counts[row] - weights[corpus]) < 1 + 1e-9
    for (corpus, *_), rows in strata.items():
        found = [total[row] for row in rows]
        assert max(found) - min(found) <= 1
        assert abs(sum(found) - num_epochs * len(rows) * weights[corpus]) < 1


def test_ten_epochs_at_a_tenth_see_every_pair_once_and_none_is_empty(tmp_path) -> None:
    # Every length is its own: 200 strata of one pair.
    source, target = np.repeat(np.arange(1, 21), 10), np.tile(np.arange(1, 11), 20)
    order = order_lengths(tmp_path, [(source, target)])
    epochs = [seen(order, weights=[0.1], epoch=epoch) for epoch in range(10)]
    total = sum(epochs, Counter())
    assert total == Counter(range(200))
    # Binomial by epoch: 20 expected with a deviation of 4.2.
    assert all(3 < counts.total() < 37 for counts in epochs)


@pytest.mark.parametrize("weight", [0.25, 1.25])
def test_which_pairs_a_low_weight_takes_first_is_left_to_the_seed(tmp_path, weight) -> None:
    # 12 pairs of one length, of which the first epoch sees 3 (once more); by seed any 3.
    order = order_lengths(tmp_path, [(np.full(12, 10), np.full(12, 10))])
    num_seeds = 500
    together = np.zeros((12, 12))
    for seed in range(num_seeds):
        counts = seen(order, weights=[weight], seed=seed)
        first = [row for row in range(12) if counts[row] > int(weight)]
        assert len(first) == 3
        together[np.ix_(first, first)] += 1
    # Each pair in 1/4 of the first epochs, with a deviation of sqrt(500 * 1/4 * 3/4) = 9.7;
    # each two together in 3/12 * 2/11 = 1/22 of them, sqrt(500 * 1/22 * 21/22) = 4.66.
    assert abs(np.diag(together) - num_seeds / 4).max() < 4.5 * 9.7
    others = together[~np.eye(12, dtype=bool)]
    assert abs(others - num_seeds / 22).max() < 4.5 * 4.66


def test_which_pairs_come_first_differs_between_lengths_and_corpora(tmp_path) -> None:
    # Two lengths in each of two corpora, 12 pairs each: four draws of 3 of 12.
    lengths = np.repeat([10, 20], 12)
    order = order_lengths(tmp_path, [(lengths, lengths), (lengths, lengths)])
    num_alike = 0
    for seed in range(300):
        counts = seen(order, weights=[0.25, 0.25], seed=seed)
        firsts = np.array([counts[row] for row in range(48)]).reshape(4, 12)
        assert firsts.sum(axis=1).tolist() == [3, 3, 3, 3]
        num_alike += sum(
            (firsts[one] == firsts[other]).all() for one in range(4) for other in range(one)
        )
    # 220 ways to take 3 of 12: 300 * 6 / 220 = 8.2 expected, with a deviation of 2.9.
    assert num_alike < 8.2 + 4.5 * 2.9


def test_double_weight_sees_each_pair_twice(order) -> None:
    assert seen(order, weights=[2.0], epoch=3) == Counter(dict.fromkeys(range(500), 2))


def test_a_corpus_of_weight_zero_is_left_out(tmp_path) -> None:
    order = order_lengths(tmp_path, [draw_lengths(50), draw_lengths(70, seed=5)])
    assert seen(order, weights=[0.0, 1.0]) == Counter(range(50, 120))


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0], "1 weights for 2 corpora"), ([1.0, -0.5], "none may be"), ([0.0, 0.0], "all be 0")],
)
def test_weights_that_make_no_sense(tmp_path, weights, message) -> None:
    order = order_lengths(tmp_path, [draw_lengths(5), draw_lengths(5)])
    with pytest.raises(ValueError, match=message):
        plan(order, weights=weights)
