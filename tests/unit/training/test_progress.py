"""What a person sees while a model trains: plain lines off a terminal, a live view on one."""

import io
from functools import partial

import pytest
from rich.console import Console

from mtkit.recipe.training import PaperSchedule, Training
from mtkit.training import progress
from mtkit.training.progress import ProgressView, count_validations
from mtkit.training.validation import ValidationResult

LOSSES = ("loss", "nll", "perplexity")


def metrics(step: int) -> dict[str, float]:
    return {
        "step": step,
        "loss": 2.5,
        "perplexity": 12.25,
        "learning_rate": 0.0007,
        "target_tokens_per_second": 8123.4,
        "padding": 0.118,
        "memory_bytes": 3 * 2**29,
        "skipped": 0,
    }


def test_plain_lines_with_speed_memory_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([10.0, 60.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with ProgressView(1000, is_shown=True) as view:
        view.show_update(metrics(50))
        view.show_update(metrics(100))
    measured = (
        "loss 2.500  ppl 12.25  lr 7.00e-04  8,123 target tokens/s  padding 12%  memory 1.5 GiB"
    )
    # 50 steps took 50 seconds, so that 900 more take a quarter of an hour.
    assert capsys.readouterr().err.splitlines() == [
        f"step 50 of 1,000  {measured}",
        f"step 100 of 1,000  {measured}  15 min 00 s left",
    ]


def test_the_time_left_has_the_validations(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([10.0, 60.0, 180.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    every_100 = Training(max_steps=1000, checkpoint_every=100, schedule=PaperSchedule())
    count_left = partial(count_validations, every_100)
    with ProgressView(1000, is_shown=True, count_left=count_left) as view:
        view.show_update(metrics(50))
        view.show_update(metrics(100))
        view.leave_out(20.0)
        view.show_update(metrics(200))
    first, second, third = capsys.readouterr().err.splitlines()
    assert not first.endswith("left")
    # A second an update; the validation of step 100 is still to come.
    assert second.endswith("15 min 00 s left, without 10 validations")
    # 170 seconds less 20 for 150 updates; 800 more, and nine validations of 20 seconds.
    assert third.endswith("16 min 20 s left")


def test_validations_by_the_clock() -> None:
    # 900 updates of 4 seconds are an hour, with a checkpoint every 7 minutes.
    by_time = Training(max_steps=1000, checkpoint_minutes=7.0, schedule=PaperSchedule())
    assert count_validations(by_time, 100, 4.0) == 9
    assert count_validations(Training(max_steps=1000, checkpoint_every=300), 0, 4.0) == 4


def test_the_longest_line_is_short_enough_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(1_000_000, is_shown=True) as view:
        view.show_update(metrics(1))
        view.show_update(
            metrics(100_000)
            | {"perplexity": 123_456.78, "target_tokens_per_second": 1_234_567, "skipped": 123}
        )
    line = capsys.readouterr().err.splitlines()[-1]
    assert "123 skipped" in line
    assert len(line) < 160


def test_what_is_missing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(10, is_shown=True) as view:
        view.show_update({"step": 5, "loss": 1.0, "perplexity": None})
        view.show_validation(5, ValidationResult(1.0, {"loss": 1.0}, []), is_best=False)
    assert capsys.readouterr().err == "step 5 of 10  loss 1.000\ndev at step 5: loss 1.000\n"


def test_the_end_of_the_warm_up_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(10, is_shown=True, warm_up_steps=3) as view:
        for step in range(1, 8):
            view.show_step(step)
    assert capsys.readouterr().err == "warm-up ends at step 3\n"


def test_text_with_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    sample = {
        "source": "[bold]source",
        "reference": "[/red] reference",
        "hypothesis": "hypothesis [1]",
    }
    validation = ValidationResult(1.0, dict.fromkeys((*LOSSES, "bleu", "chrf"), 1.0), [sample])
    with ProgressView(10, is_shown=True) as view:
        view.show_validation(5, validation, is_best=True)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "dev at step 5: BLEU 1.00  chrF 1.00  loss 1.000  ppl 1.00  (best so far)",
        "  source     [bold]source",
        "  reference  [/red] reference",
        "  hypothesis hypothesis [1]",
    ]


def test_a_validation_that_is_not_the_best_names_the_best(
    capsys: pytest.CaptureFixture[str],
) -> None:
    validation = ValidationResult(1.0, dict.fromkeys(LOSSES, 1.0), [])
    with ProgressView(10_000, is_shown=True) as view:
        view.show_validation(1000, validation, is_best=True)
        view.show_validation(2000, validation, is_best=False)
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "dev at step 2,000: loss 1.000  ppl 1.00  (best at step 1,000)"


def test_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(10, is_shown=False, warm_up_steps=5) as view:
        view.show_step(5)
        view.show_update(metrics(5))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [60, 160])
def test_a_terminal_shows_the_bar_and_all_that_is_measured(monkeypatch, width: int) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(progress, "open_console", lambda: console)
    with ProgressView(1000, is_shown=True) as view:
        view.show_step(50)
        view.show_update(metrics(50))
    # A narrow terminal breaks the line, and loses nothing of it.
    shown = " ".join(screen.getvalue().split())
    for words in ("step 50 of 1,000", "loss 2.500", "8,123 target tokens/s", "memory 1.5 GiB"):
        assert words in shown, words
