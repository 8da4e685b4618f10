"""What `mtkit calibrate` prints where nothing is released."""

import pytest

from mtkit.cli.calibrate import describe
from mtkit.evaluation.quality import Threshold
from mtkit.pipeline.calibrate import Calibration


@pytest.mark.parametrize(
    ("wrong", "one_percent", "ten_percent"),
    [
        # Half a wrong one of 20 is 2.5 %, more than 1 % allows, but none of 19 is wrong. For 10 %
        # it takes 61 with 2 wrong (29 and 46 with 0 and 1), of 60 % of 19 in 40.
        (0, "at least 499 labels, these are too few", "at least 49 labels, about 215 are needed"),
        (3, "at least 499 labels, too many are wrong", "at least 49 labels, too many are wrong"),
    ],
)
def test_why_nothing_is_released(wrong: int, one_percent: str, ten_percent: str) -> None:
    threshold = Threshold(at=0.9, fit_released=8, fit_wrong=0, released=11, wrong=wrong)
    found = Calibration(20, 16, 24, 1.0, [threshold])
    rows = {line.split()[0]: line for line in describe(found, 0.05, 0.95).splitlines()[3:]}
    assert rows["1%"].endswith(one_percent)
    assert rows["10%"].endswith(ten_percent)
