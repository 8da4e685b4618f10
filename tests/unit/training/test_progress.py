"""What a person sees while a model trains, off a terminal."""

import pytest

from mtkit.training import progress
from mtkit.training.progress import ProgressView
from mtkit.training.validation import Sample, Validation


def metrics(step: int) -> dict[str, float]:
    return {
        "step": step,
        "loss": 2.5,
        "perplexity": 12.25,
        "learning_rate": 0.0007,
        "target_tokens_per_second": 8123.4,
    }


def test_plain_lines_with_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 60.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with ProgressView(1000, is_shown=True) as view:
        view.show_update(metrics(50))
        view.show_update(metrics(100))
    # 50 steps took 50 seconds, so that 900 more take a quarter of an hour.
    assert capsys.readouterr().err.splitlines() == [
        "step 50 of 1,000  loss 2.500  ppl 12.25  lr 7.00e-04  8,123 target tokens/s  ? left",
        "step 100 of 1,000  loss 2.500  ppl 12.25  lr 7.00e-04  8,123 target tokens/s  "
        "0:15:00 left",
    ]


def test_text_with_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("loss", "nll", "perplexity", "bleu", "chrf")
    sample = Sample("[bold]source", "[/red] reference", "hypothesis [1]")
    validation = Validation(1.0, dict.fromkeys(names, 1.0), [sample])
    with ProgressView(10, is_shown=True) as view:
        view.show_validation(5, validation, is_best=True)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "dev at step 5: BLEU 1.00  chrF 1.00  loss 1.000  ppl 1.00  (best so far)",
        "  source     [bold]source",
        "  reference  [/red] reference",
        "  hypothesis hypothesis [1]",
    ]


def test_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(10, is_shown=False) as view:
        view.show_update(metrics(5))
    assert capsys.readouterr().err == ""
