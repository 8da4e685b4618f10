"""Learning rates against arXiv 1706.03762, section 5.3, and hand arithmetic."""

import pytest

from mtkit.recipe.training import (
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    LinearSchedule,
    PaperSchedule,
)
from mtkit.training.schedule import learning_rate, note_warmup


def rate(schedule, step, *, d_model=512, max_steps=100_000):
    return learning_rate(schedule, step, d_model=d_model, max_steps=max_steps)


def test_the_paper_peaks_at_its_warm_up() -> None:
    # 512^-0.5 * 4000^-0.5 = 1 / sqrt(2,048,000) = 6.98771e-4.
    assert rate(PaperSchedule(), 4_000) == pytest.approx(6.98771e-4, rel=1e-6)
    # The first step: 512^-0.5 * 4000^-1.5 = 1.746928e-7.
    assert rate(PaperSchedule(), 1) == pytest.approx(1.746928e-7, rel=1e-6)
    # The base model's last step: 512^-0.5 * 100000^-0.5 = 1.397542e-4.
    assert rate(PaperSchedule(), 100_000) == pytest.approx(1.397542e-4, rel=1e-6)
    # The big model's width halves nothing but the factor: 1024^-0.5 * 4000^-0.5.
    assert rate(PaperSchedule(), 4_000, d_model=1024) == pytest.approx(4.941059e-4, rel=1e-6)


def test_the_paper_rises_in_a_straight_line_then_falls_with_the_root() -> None:
    assert rate(PaperSchedule(), 2_000) == pytest.approx(6.98771e-4 / 2, rel=1e-6)
    assert rate(PaperSchedule(), 16_000) == pytest.approx(6.98771e-4 / 2, rel=1e-6)
    assert rate(PaperSchedule(factor=2.0), 4_000) == pytest.approx(2 * 6.98771e-4, rel=1e-6)


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 0.005 / 2000), (1000, 0.0025), (2000, 0.005), (8000, 0.0025)]
)
def test_inverse_square_root(step: int, expected: float) -> None:
    schedule = InverseSquareRootSchedule(kind="inverse-sqrt", peak=0.005, warmup_steps=2000)
    assert rate(schedule, step) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "expected"), [(50, 0.5), (100, 1.0), (350, 0.7750), (600, 0.55), (1100, 0.1)]
)
def test_linear(step: int, expected: float) -> None:
    schedule = LinearSchedule(kind="linear", peak=1.0, warmup_steps=100, final=0.1)
    assert rate(schedule, step, max_steps=1100) == pytest.approx(expected)


@pytest.mark.parametrize(
    # A quarter of the way down half a cosine: (1 + cos 45 degrees) / 2 = 0.853553.
    ("step", "expected"),
    [(50, 0.5), (100, 1.0), (350, 0.853553), (600, 0.5), (1100, 0.0)],
)
def test_cosine(step: int, expected: float) -> None:
    schedule = CosineSchedule(kind="cosine", peak=1.0, warmup_steps=100)
    assert rate(schedule, step, max_steps=1100) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("warmup", "step", "expected"), [(0, 1, 2.0), (4, 1, 0.5), (4, 9, 2.0)])
def test_constant(warmup: int, step: int, expected: float) -> None:
    schedule = ConstantSchedule(kind="constant", peak=2.0, warmup_steps=warmup)
    assert rate(schedule, step) == pytest.approx(expected)


def test_a_fall_that_never_begins_is_noted() -> None:
    schedule = CosineSchedule(kind="cosine", peak=1.0, warmup_steps=400)
    assert not note_warmup(schedule, max_steps=401)
    assert "warmup_steps = 400" in note_warmup(schedule, max_steps=400)
    # These don't end at the last step.
    assert not note_warmup(PaperSchedule(kind="paper", warmup_steps=400), max_steps=100)
