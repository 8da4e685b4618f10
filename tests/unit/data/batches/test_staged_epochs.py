"""Epochs in stages: as many updates as a stage says, whole epochs but for its last one."""

from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.data.batches.updates import StagedEpochs, plan_epoch

from .stores import order_lengths


def stage(order, num_updates, weights):
    keys = {"batch_tokens": 100, "length_groups": 1, "seed": 1}
    return num_updates, lambda epoch: plan_epoch(order, weights=weights, epoch=epoch, **keys)


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    # Ten tokens each, ten pairs to an update: three updates of the one corpus, two of the other.
    sides = [np.full(size, 10) for size in (30, 20)]
    folder = tmp_path_factory.mktemp("store")
    return order_lengths(folder, [(side, side) for side in sides])


def make_stages(order):
    return [stage(order, 4, [1, 0]), stage(order, 4, [0, 1]), stage(order, None, [1, 1])]


def test_a_stage_ends_with_its_last_update_and_the_next_begins_an_epoch(order) -> None:
    epochs = StagedEpochs(make_stages(order))
    plans = [epochs.plan(epoch) for epoch in range(6)]
    # The first stage ends within its second epoch, the second exactly with one.
    assert [len(plan) for plan in plans] == [3, 1, 2, 2, 5, 5]
    rows = [sorted(np.concatenate(plan).tolist()) for plan in plans]
    assert rows[0] == list(range(30))
    assert len(set(rows[1])) == 10
    assert set(rows[1]) < set(range(30))
    assert rows[2] == rows[3] == list(range(30, 50))
    assert rows[4] == rows[5] == list(range(50))
    # Another order in each epoch, also in the first ones of stages.
    assert not np.array_equal(plans[2][0], plans[3][0])


@settings(max_examples=20)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_epochs_are_the_same_in_any_order(order, asked) -> None:
    one, other = StagedEpochs(make_stages(order)), StagedEpochs(make_stages(order))
    expected = [[update.tolist() for update in one.plan(epoch)] for epoch in range(9)]
    for epoch in asked:
        assert [update.tolist() for update in other.plan(epoch)] == expected[epoch]


@given(st.integers(1, 9), st.sampled_from([[0.02, 0], [0.3, 0.5], [2.5, 0]]))
def test_a_stage_has_exactly_its_updates_also_with_empty_epochs(order, wanted, weights) -> None:
    epochs = StagedEpochs([stage(order, wanted, weights), stage(order, None, [0, 1])])
    of_stage = partial(plan_epoch, order, batch_tokens=100, length_groups=1, seed=1)
    left = wanted
    for epoch in count():
        expected = [each.tolist() for each in of_stage(weights=weights, epoch=epoch)][:left]
        assert [each.tolist() for each in epochs.plan(epoch)] == expected
        left -= len(expected)
        if not left:
            break
    assert {row for update in epochs.plan(epoch + 1) for row in update} == set(range(30, 50))


def test_one_stage_without_an_end_is_the_epochs_themselves(order) -> None:
    [alone] = [stage(order, None, [1, 0.5])]
    for epoch in (3, 0):
        found, expected = StagedEpochs([alone]).plan(epoch), alone[1](epoch)
        assert [each.tolist() for each in found] == [each.tolist() for each in expected]
