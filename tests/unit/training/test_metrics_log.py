"""metrics.jsonl, and what is fed from it."""

import errno
import json
import math
import os
from pathlib import Path

import pytest

from mtkit.training import curves
from mtkit.training.metrics import read_metrics
from mtkit.training.metrics_log import MetricsLog

PNG = b"\x89PNG\r\n\x1a\n"


class Recorder:
    """A tracker that keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def log(self, kind, metrics) -> None:
        self.calls.append((kind, dict(metrics)))

    def rewind(self, step) -> None:
        self.calls.append(("rewind", step))

    def close(self) -> None:
        self.calls.append(("close",))


def open_log(path: Path, *, resumed_at: int, trackers=(), seconds: float = 0.0) -> MetricsLog:
    return MetricsLog(
        path,
        picture=path.with_name("curves.png"),
        title="a run",
        resumed_at=resumed_at,
        trackers=trackers,
        seconds_before_picture=seconds,
    )


def test_one_object_a_line(tmp_path: Path) -> None:
    log = open_log(tmp_path / "metrics.jsonl", resumed_at=0)
    log.append("train", {"step": 1, "loss": 2.5})
    log.append("dev", {"step": 1, "perplexity": math.inf, "bleu": math.nan})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    # Strict JSON: no Infinity, no NaN.
    assert [json.loads(line, parse_constant=float) for line in lines] == [
        {"kind": "train", "step": 1, "loss": 2.5},
        {"kind": "dev", "step": 1, "perplexity": None, "bleu": None},
    ]


def test_nan_of_an_older_version_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "dev", "step": 1, "loss": NaN, "bleu": -Infinity}\n')
    open_log(path, resumed_at=1)
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["loss"] is None


def test_what_came_after_the_checkpoint_is_dropped_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = open_log(path, resumed_at=0)
    for step in (2, 4, 6):
        log.append("train", {"step": step})
    # A crash may cut the last line short.
    with path.open("a") as stream:
        stream.write('{"kind": "tra')
    open_log(path, resumed_at=4).append("train", {"step": 5})
    assert [line["step"] for line in read_metrics(path)] == [2, 4, 5]


def test_lines_that_come_again_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = open_log(path, resumed_at=0)
    for kind, step in (("train", 2), ("dev", 2), ("train", 4), ("dev", 4)):
        log.append(kind, {"step": step})
    log.drop("dev", 4)
    kept = [(line["kind"], line["step"]) for line in read_metrics(path)]
    assert kept == [("train", 2), ("dev", 2), ("train", 4)]


def test_no_file_no_metrics(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_a_line_cut_short_does_not_glue_itself_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = open_log(path, resumed_at=0)
    log.append("train", {"step": 1})
    with path.open("a") as stream:
        stream.write('{"kind": "train", "step": 2, "lo')
    log.append("train", {"step": 3})
    log.append("train", {"step": 4})
    assert [line["step"] for line in read_metrics(path)] == [1, 3, 4]


def test_a_full_disk_is_warned_of_once_and_ends_nothing(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    path = tmp_path / "metrics.jsonl"
    tracker = Recorder()
    log = open_log(path, resumed_at=0, trackers=[tracker])

    def open_full(self, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    with monkeypatch.context() as full:
        full.setattr(Path, "open", open_full)
        for step in (1, 2):
            log.append("train", {"step": step})
            log.rewind(step)
    said = capsys.readouterr().err
    assert said.count("warning: ") == 1
    assert "No space left on device" in said
    # Elsewhere there is room; here too, later.
    log.append("train", {"step": 3})
    assert [line["step"] for line in read_metrics(path)] == [3]
    assert [call[1]["step"] for call in tracker.calls if call[0] == "train"] == [1, 2, 3]


def test_a_picture_that_fails_is_warned_of_once(tmp_path: Path, monkeypatch, capsys) -> None:
    log = open_log(tmp_path / "metrics.jsonl", resumed_at=0)

    def draw(*_, **__):
        raise ValueError("no ink")

    monkeypatch.setattr(curves, "draw_curves", draw)
    log.draw()
    log.draw()
    assert capsys.readouterr().err == (
        f"warning: {tmp_path / 'curves.png'}: could not draw the curves: no ink; "
        "training continues\n"
    )


def test_going_back_drops_measurements_and_keeps_what_tells_why(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tracker = Recorder()
    log = open_log(path, resumed_at=0, trackers=[tracker])
    for step in (2, 4, 6):
        log.append("train", {"step": step})
    log.append("dev", {"step": 5})
    log.append("event", {"step": 6, "text": "update skipped"})
    log.rewind(4)
    log.append("train", {"step": 5})
    lines = read_metrics(path)
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("train", 2), ("train", 4), ("event", 6), ("train", 5)
    ]  # fmt: skip
    assert tracker.calls[-2:] == [("rewind", 4), ("train", {"step": 5})]


def test_trackers_get_what_the_file_gets(tmp_path: Path) -> None:
    tracker = Recorder()
    log = open_log(tmp_path / "metrics.jsonl", resumed_at=0, trackers=[tracker])
    log.append("dev", {"step": 1, "loss": 2.0, "perplexity": math.inf})
    log.close()
    assert tracker.calls == [("dev", {"step": 1, "loss": 2.0, "perplexity": None}), ("close",)]


def test_a_short_training_is_drawn_once_at_its_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "metrics.jsonl", resumed_at=0, seconds=3600.0)
    log.append("train", {"step": 1, "nll": 3.0})
    log.draw()
    assert not (tmp_path / "curves.png").exists()
    log.close()
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


def test_the_picture_is_drawn_where_it_belongs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "metrics.jsonl", resumed_at=0)
    log.append("train", {"step": 1, "nll": 3.0})
    log.draw()
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


def test_what_is_no_line_of_metrics_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = '{"kind": "train", "step": 3, "loss": 1e999}'
    text = f'5\n[]\n{{"step": "x", "kind": "train"}}\n{good}\n{{"step": 4}}\n'
    path.write_bytes(text.encode() + b"\xff\n")
    assert read_metrics(path) == [{"kind": "train", "step": 3, "loss": None}]
