"""metrics.jsonl and the picture drawn from it."""

import json
import math
from pathlib import Path

from mtkit.training.metrics import MetricsLog, draw_learning_curve, read_metrics

PNG = b"\x89PNG\r\n\x1a\n"


def open_log(path: Path, *, resumed_at: int) -> MetricsLog:
    picture = path.with_name("curve.png")
    return MetricsLog(path, picture=picture, title="a run", resumed_at=resumed_at)


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


def test_no_file_no_metrics(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_the_learning_curve_is_a_picture_with_every_series(tmp_path: Path) -> None:
    metrics = [
        {"kind": "train", "step": 1, "nll": 3.0},
        {"kind": "train", "step": 2, "nll": None},
        {"kind": "dev", "step": 2, "nll": 2.5, "bleu": 10.0, "chrf": 30.0},
    ]
    draw_learning_curve(metrics, tmp_path / "curve.png", title="a run")
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)
    draw_learning_curve(metrics, tmp_path / "curve.svg", title="a run")
    drawn = (tmp_path / "curve.svg").read_text()
    for word in ("a run", "training", "development", "BLEU", "chrF", "step", "nats per target"):
        assert f"<!-- {word}" in drawn or word in drawn, word
    assert [path.name for path in tmp_path.iterdir() if "draft" in path.name] == []
