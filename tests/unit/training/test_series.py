"""What a picture of a training shows."""

import math

import pytest

from mtkit.training.curves import Series, group_events
from mtkit.training.metrics import describe_length, list_scores


def series(*values: float | None) -> Series:
    return Series.of([{"step": step, "nll": value} for step, value in enumerate(values)], "nll")


def test_what_is_missing_is_no_number() -> None:
    lines = [{"step": 1, "nll": 2.0}, {"step": 2, "nll": None}, {"step": 3}]
    assert Series.of(lines, "nll").values == pytest.approx([2.0, math.nan, math.nan], nan_ok=True)
    assert Series.of(lines[1:], "nll").is_empty
    assert Series.of([], "nll").is_empty


def test_the_running_mean_leaves_out_what_is_no_number() -> None:
    # Three points wide; of 100, it would be five.
    smoothed = series(1.0, 2.0, 6.0, None, 8.0, None, None, None)
    assert smoothed.smoothed().values == pytest.approx(
        [1.5, 3.0, 4.0, 7.0, 8.0, 8.0, math.nan, math.nan], nan_ok=True
    )


def test_the_first_twentieth_of_the_steps_is_early() -> None:
    values = [float(step) for step in range(101)]
    assert series(*values).later().min() == 6.0
    # A few points are shown whole.
    assert series(9.0, 3.0, 2.0).later().max() == 9.0
    assert series(9.0, *[None] * 50).later().tolist() == [9.0]


def test_the_score_that_ranks_comes_first() -> None:
    dev = [{"kind": "dev", "step": 1, "loss": 1.0, "bleu": None, "ter": 60.0}]
    dev += [{"kind": "dev", "step": 2, "elapsed_seconds": 3.0, "bleu": 1.0, "chrf": 20.0}]
    assert list_scores(dev, "chrf") == ["chrf", "ter", "bleu"]
    assert list_scores([], "bleu") == []


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"step": 50, "epoch": 0}, "50 steps"),
        (
            {"step": 5000, "epoch": 1, "target_tokens": 12_340_000, "elapsed_seconds": 75.0},
            "5,000 steps · 1 epoch · 12.3 million target tokens · 1 min 15 s",
        ),
    ],
)
def test_how_long_a_training_was(last: dict, text: str) -> None:
    assert describe_length([{"kind": "train", **last}, {"kind": "dev", "step": 9}]) == text


def test_events_that_differ_in_numbers_alone_are_one_kind() -> None:
    events = [
        {"step": 7, "text": "back to step 5; 3 updates skipped"},
        {"step": 1, "text": "resumed"},
        {"step": 1200, "text": "back to step 1,000; 3 updates skipped"},
        {"step": 9, "text": "x" * 80},
    ]
    assert group_events(events, 6) == [
        ("2 × back to step …; … updates skipped (7, 1,200)", [7, 1200]),
        ("resumed (1)", [1]),
        ("x" * 45 + "… (9)", [9]),
    ]


def test_beyond_so_many_kinds_the_rest_is_one() -> None:
    events = [{"step": step, "text": text} for step, text in enumerate("abcdc")]
    assert group_events(events, 3) == [
        ("a (0)", [0]),
        ("b (1)", [1]),
        ("3 × other events (2 to 4)", [2, 3, 4]),
    ]
