"""Means since the last log line, by hand."""

import math

import pytest

from mtkit.training.loop import Meter
from mtkit.training.update import RankRequests, UpdateResult


def test_means_since_the_last_line() -> None:
    meter = Meter()
    outcome = UpdateResult(30.0, 20.0, 10, 18, 24, 0.5, True, 64, RankRequests())
    meter.add(outcome)
    meter.add(outcome._replace(loss=6.0, negative_log_likelihood=4.0, num_target_tokens=2))
    # One that was left out: only its padding counts.
    meter.add(outcome._replace(loss=math.nan, is_applied=False, gradient_norm=math.nan))
    measured = meter.means()
    assert measured["loss"] == pytest.approx(36.0 / 12)
    assert measured["nll"] == pytest.approx(24.0 / 12)
    assert measured["perplexity"] == pytest.approx(math.exp(2.0))
    assert measured["padding"] == pytest.approx(1 - 54 / 72)
    assert measured["gradient_norm"] == 0.5
    assert "divergence" not in measured
    meter.add(outcome._replace(divergence=11.0))
    assert meter.means()["divergence"] == pytest.approx(11.0 / 22)
