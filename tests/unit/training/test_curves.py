"""The picture of a training."""

import math
from itertools import combinations
from pathlib import Path
from typing import IO

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from mtkit.training import curves
from mtkit.training.curves import draw_curves

PNG = b"\x89PNG\r\n\x1a\n"


def train_line(step: int) -> dict:
    return {
        "kind": "train",
        "step": step,
        "epoch": step // 5000,
        "nll": 1.8 + 8.0 * math.exp(-step / 2000),
        "learning_rate": 1e-3 * min(step / 4000, (4000 / step) ** 0.5),
        "target_tokens": 24_000 * step,
        "target_tokens_per_second": 40_000.0 + step % 7,
        "elapsed_seconds": 0.6 * step,
    }


def dev_line(step: int, bleu: float) -> dict:
    nll = 1.6 + 8.0 * math.exp(-step / 2000) + abs(step - 45_000) / 1e6
    scores = {"bleu": bleu, "chrf": 20.0 + bleu}
    return {
        "kind": "dev",
        "step": step,
        "elapsed_seconds": 1.0,
        "loss": nll + 1,
        "nll": nll,
        **scores,
    }


def event(step: int, text: str) -> dict:
    return {"kind": "event", "step": step, "text": text}


def long_training() -> list[dict]:
    """Returns a thousand log lines; the best score is at step 60,000, the least loss at 45,000."""
    scores = {step: 27.0 - abs(step - 60_000) / 9_000 for step in range(1500, 100_001, 1500)}
    return [
        *(train_line(step) for step in range(100, 100_001, 100)),
        *(dev_line(step, bleu) for step, bleu in scores.items()),
        event(12_000, "resumed"),
        event(47_100, "update skipped: gradient is NaN or infinite"),
        event(47_101, "update skipped: gradient is NaN or infinite"),
        event(47_102, "update skipped: gradient is NaN or infinite"),
        event(46_500, "back to step 46,500"),
        event(52_500, "back to step 51,000"),
        event(60_000, "resumed"),
    ]


def drawn_words(metrics: list[dict], path: Path, **options) -> str:
    """Returns an SVG picture, in whose comments stands each text of it."""
    draw_curves(metrics, path / "curves.svg", title="a run", **options)
    return (path / "curves.svg").read_text()


def test_every_series_is_named(tmp_path: Path) -> None:
    words = drawn_words(long_training(), tmp_path, warm_up_steps=4000)
    for text in (
        "a run",
        "100,000 steps · 20 epochs · 2,400 million target tokens · 16 h 40 min",
        "training",
        "development",
        "perplexity",
        "development BLEU",
        "chrF (right)",
        "learning rate",
        "target tokens/s (right)",
        "warm-up, to step 4,000",
        "best: BLEU 27.00 at step 60,000",
        "step",
    ):
        assert f"<!-- {text} -->" in words, text


def test_events_of_one_kind_are_named_once(tmp_path: Path) -> None:
    words = drawn_words(long_training(), tmp_path)
    for text in (
        "2 × resumed (12,000, 60,000)",
        "3 × update skipped: gradient is NaN or infinite (47,100 to 47,102)",
        "2 × back to step … (46,500, 52,500)",
    ):
        assert words.count(f"<!-- {text} -->") == 1, text


def test_many_kinds_of_events_are_put_together(tmp_path: Path) -> None:
    events = [event(step, text) for step, text in enumerate("abcdefgh", start=1)]
    words = drawn_words(events, tmp_path)
    assert "<!-- e (5) -->" in words
    assert "<!-- 3 × other events (6 to 8) -->" in words


@pytest.mark.parametrize(
    ("score", "best"),
    [("bleu", "BLEU 27.00 at step 60,000"), ("loss", "loss 2.600 at step 45,000")],
)
def test_the_best_is_that_of_the_metric_that_ranks(tmp_path: Path, score: str, best: str) -> None:
    assert f"<!-- best: {best} -->" in drawn_words(long_training(), tmp_path, score=score)


def test_of_equal_scores_the_later_is_the_best_as_it_is_released(tmp_path: Path) -> None:
    lines = [dev_line(step, bleu) for step, bleu in ((1, 3.0), (2, 5.0), (3, 5.0))]
    assert "<!-- best: BLEU 5.00 at step 3 -->" in drawn_words(lines, tmp_path)


@pytest.mark.parametrize("score", ["bleu", "loss"])
@pytest.mark.parametrize(
    "metrics",
    [
        [],
        [event(0, "_$ no dollars, no {braces}")],
        [train_line(50)],
        [dev_line(50, 0.0)],
        [train_line(1), {"kind": "train", "step": 2, "nll": None}, dev_line(2, 1.0)],
        [{**dev_line(1, 1.0), "bleu": None, "loss": None, "nll": None}],
        # As written by earlier versions.
        [
            {"kind": "train", "step": 1, "loss": 3.0, "nll": 2.0},
            {"kind": "dev", "step": 1, "nll": 2},
        ],
        [{"kind": "digest", "step": 1, "digest": "ab"}],
        [{"kind": "train", "step": 1, "nll": 800.0}],
    ],
)
def test_little_or_nothing_measured_is_a_picture_too(
    tmp_path: Path, metrics: list[dict], score: str
) -> None:
    draw_curves(metrics, tmp_path / "curves.png", title="a run", warm_up_steps=10, score=score)
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("num_lines", [4, 40, 1000])
def test_no_two_labels_overlap_and_none_is_cut_off(num_lines: int, monkeypatch) -> None:
    drawn: list[Text] = []
    draw = Text.draw

    def draw_and_note(self: Text, renderer) -> None:
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        draw(self, renderer)

    lines = [line for line in long_training() if line["step"] <= 100 * num_lines]
    figure = curves._build_figure(lines, "a run", 4000, "bleu")
    monkeypatch.setattr(Text, "draw", draw_and_note)
    figure.draw_without_rendering()
    names = {line for text in drawn for line in text.get_text().split("\n")}
    assert {"a run", "perplexity", "learning rate", "step"} <= names
    whole = figure.bbox
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn]
    for text, box in boxes:
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1, text
    for (one, box), (other, other_box) in combinations(boxes, 2):
        assert not box.overlaps(other_box), (one, other)


def test_a_picture_that_fails_leaves_the_older_one(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "curves.png"
    path.write_bytes(b"older")

    def fill_disk(self: Figure, draft: IO[bytes], **_) -> None:
        draft.write(b"half of it")
        raise OSError("No space left on device")

    monkeypatch.setattr(Figure, "savefig", fill_disk)
    with pytest.raises(OSError, match="No space"):
        draw_curves([], path, title="a run")
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]
