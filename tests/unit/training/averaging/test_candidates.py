"""Which checkpoints a mean may be of, by hand; how candidates rank and read."""

import io
import random
from itertools import combinations
from pathlib import Path

import pytest
from rich.console import Console

from mtkit.training.averaging.model_record import (
    Candidate,
    ScoredCandidate,
    choose_winner,
    list_candidates,
    show_candidates,
    spread_steps,
)
from mtkit.training.checkpoint import Checkpoint, TrainingState


def checkpoints(scores: dict[int, float | None]) -> list[Checkpoint]:
    """Returns checkpoints with these scores by step."""
    return [
        Checkpoint(
            Path(f"step-{step:08d}"), TrainingState(step=step), score, score is not None, {}, "", {}
        )
        for step, score in scores.items()
    ]


@pytest.mark.parametrize(
    ("steps", "count", "expected"),
    [
        ([10, 20, 30, 40, 50], 1, [50]),
        ([10, 20, 30, 40, 50], 2, [10, 50]),
        ([10, 20, 30, 40, 50], 3, [10, 30, 50]),
        # Points at 10, 23.3, 36.7 and 50.
        ([10, 20, 30, 40, 50], 4, [10, 20, 40, 50]),
        ([10, 20, 30, 40, 50], 5, [10, 20, 30, 40, 50]),
        ([10, 20, 30, 40, 50], 9, [10, 20, 30, 40, 50]),
        # The middle, 25, is as near to 20 as to 30: the later.
        ([10, 20, 30, 40], 3, [10, 30, 40]),
        # One kept of each 1,000, and the last few: the middle is 2,800.
        ([1000, 2000, 3000, 4000, 4200, 4400, 4600], 3, [1000, 3000, 4600]),
        # Points at 1,000, 1,900, 2,800, 3,700 and 4,600.
        ([1000, 2000, 3000, 4000, 4200, 4400, 4600], 5, [1000, 2000, 3000, 4000, 4600]),
        # 95 is the nearest to the middle, far away as it is.
        ([0, 95, 98, 100], 3, [0, 95, 100]),
        # Points at 0, 33.3, 66.7 and 100: 50 is the nearest to two of them; the first has it.
        ([0, 50, 90, 91, 100], 4, [0, 50, 90, 100]),
        # The same points: 3 is nearer to 33.3 than 2 is, but the point after it needs one too.
        ([0, 1, 2, 3, 100], 4, [0, 2, 3, 100]),
        ([7], 3, [7]),
        ([], 2, []),
    ],
)
def test_evenly_spread_steps(steps: list[int], count: int, expected: list[int]) -> None:
    assert [steps[place] for place in spread_steps(steps, count)] == expected


def test_steps_at_even_distances_are_found_among_any_others() -> None:
    draw = random.Random(5)
    for _ in range(200):
        count = draw.randint(2, 6)
        gap = draw.randint(2, 50)
        even = [100 + gap * number for number in range(count)]
        others = {draw.randint(100, even[-1]) for _ in range(draw.randint(0, 30))}
        steps = sorted({*even, *others})
        assert [steps[place] for place in spread_steps(steps, count)] == even


def test_ascending_places_with_both_ends_whatever_the_steps() -> None:
    for steps in combinations((0, 1, 2, 3, 10, 11, 60, 98, 99, 100), 6):
        for count in range(2, 7):
            places = spread_steps(steps, count)
            assert places == sorted(set(places))
            assert (len(places), places[0], places[-1]) == (count, 0, 5)


def test_the_candidates_of_a_run() -> None:
    saved = checkpoints({100: 1.0, 200: 5.0, 300: 4.0, 400: 2.0, 500: 3.0})
    assert [(one.name, one.steps) for one in list_candidates(saved, 3)] == [
        ("last", [500]),
        ("best", [200]),
        ("last 2", [400, 500]),
        ("last 3", [300, 400, 500]),
        ("last 5, best 5", [100, 200, 300, 400, 500]),
        ("best 2", [200, 300]),
        ("best 3", [200, 300, 500]),
        ("spaced 3", [100, 300, 500]),
    ]


def test_a_set_of_steps_is_one_candidate_with_all_its_names() -> None:
    saved = checkpoints({100: 1.0, 200: 2.0, 300: 3.0})
    assert [(one.name, one.steps) for one in list_candidates(saved, 5)] == [
        ("last, best", [300]),
        ("last 2, best 2", [200, 300]),
        ("last 3, best 3, spaced 3", [100, 200, 300]),
    ]
    assert [(one.name, one.steps) for one in list_candidates(saved, 2)] == [
        ("last, best", [300]),
        ("last 2, best 2", [200, 300]),
        ("last 3, best 3", [100, 200, 300]),
        ("spaced 2", [100, 300]),
    ]
    # A mean of one is no mean.
    assert [one.name for one in list_candidates(saved, 1)] == [
        "last, best", "last 2, best 2", "last 3, best 3"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("num_saved", "count", "expected"),
    [
        (10, 10, [2, 3, 5, 10]),
        (12, 4, [2, 3, 4, 5, 10, 12]),
        (30, 5, [2, 3, 5, 10, 20, 30]),
        (4, 20, [2, 3, 4]),
    ],
)
def test_means_of_several_numbers(num_saved: int, count: int, expected: list[int]) -> None:
    # The scores fall, so that the best are the first.
    saved = checkpoints({step: 100.0 - step for step in range(1, num_saved + 1)})
    found = list_candidates(saved, count)
    last = [one for one in found if one.name.startswith("last ")]
    assert [one.steps for one in last] == [
        list(range(num_saved - number + 1, num_saved + 1)) for number in expected
    ]
    best = [one for one in found if one.name.startswith("best ")]
    assert [one.steps for one in best] == [
        list(range(1, number + 1)) for number in expected if number < num_saved
    ]
    assert len([one for one in found if "spaced" in one.name]) == 1


def test_a_checkpoint_of_a_stop_may_be_the_last_one_and_is_in_no_mean() -> None:
    saved = checkpoints({100: 1.0, 200: 2.0, 250: None})
    assert [(one.name, one.steps) for one in list_candidates(saved, 3)] == [
        ("last", [250]),
        ("best", [200]),
        ("last 2, best 2, spaced 2", [100, 200]),
    ]
    alone = list_candidates(checkpoints({50: None}), 3)
    assert [(one.name, one.steps) for one in alone] == [("last", [50])]


def measured(name: str, steps: list[int], score: float) -> ScoredCandidate:
    chosen = tuple(checkpoints(dict.fromkeys(steps, 0.0)))
    metrics = {"bleu": score, "chrf": 50.126, "loss": 1.23456}
    return ScoredCandidate(Candidate(name, chosen), score, metrics)


def test_the_best_score_wins_and_of_equal_ones_the_fewest_checkpoints() -> None:
    last, best = measured("last", [3], 20.0), measured("best", [1], 25.0)
    mean, other = measured("last 3", [1, 2, 3], 25.0), measured("best 2", [1, 2], 25.5)
    assert choose_winner([last, mean, best]) is best
    assert choose_winner([last, mean, best, other]) is other
    # By loss, a score is negative.
    assert choose_winner([measured("a", [1], -2.0), measured("b", [2, 3], -1.5)]).score == -1.5


def test_the_table_and_the_lines() -> None:
    rows = [measured("last", [3000], 20.0), measured("last 2", [1500, 3000], 20.126)]
    stream = io.StringIO()
    show_candidates(rows, rows[1], Console(file=stream, width=100))
    table = [
        [cell.strip() for cell in line.replace("┃", "│").strip("│\n").split("│")]
        for line in stream.getvalue().splitlines()
        if line[0] in "┃│"
    ]
    assert table == [
        ["candidate", "steps", "BLEU", "chrF", "loss", ""],
        ["last", "3,000", "20.00", "50.13", "1.235", ""],
        ["last 2", "1,500 3,000", "20.13", "50.13", "1.235", "winner"],
    ]
    assert [row.record().describe() for row in rows] == [
        "last: BLEU 20.00, chrF 50.13, loss 1.235 (step 3000)",
        "last 2: BLEU 20.13, chrF 50.13, loss 1.235 (steps 1500, 3000)",
    ]
