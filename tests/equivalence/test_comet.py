"""Imported metrics give the scores of unbabel-comet 2.2.7 with transformers 4.57.6.

The numbers are its own, of folders that `tests/learned_metrics.py` writes, by its
`load_from_checkpoint` and `predict`. `benchmarks/comet_parity.py` compares larger ones, in an
environment that has it.
"""

from pathlib import Path

import pytest
import torch

from mtkit.inference.learned_metric import open_metric
from mtkit.network.comet import sparsemax
from mtkit.pipeline.import_model import import_model

from ..learned_metrics import ROWS, write_metric

SCORES = {
    "regression": [-0.6061366, -0.5895941, -0.6013129, -0.5970834],
    "normalized": [-0.553759, -0.5588235, -0.5907009, -0.5211941],
    "one-layer": [-1.2347771, -0.6642108, -1.2603334, -0.967277],
    "referenceless": [-0.3972546, -0.3637964, -0.4091232, -0.3288559],
    "kiwi": [-0.4962083, -0.5026825, -0.5007471, -0.5058354],
    "unified": [-0.4833671, -0.4822727, -0.4830579, -0.4874636],
}


@pytest.mark.parametrize("kind", SCORES)
def test_scores_are_those_of_unbabel_comet(kind: str, tmp_path: Path) -> None:
    folder = write_metric(tmp_path / "published", kind)
    import_model(str(folder), tmp_path / "metric", encoder=str(folder / "encoder"))
    metric = open_metric(str(tmp_path / "metric"))
    found = metric.score(ROWS)
    assert found.tolist() == pytest.approx(SCORES[kind], abs=5e-6)
    alone = [metric.score([row])[0] for row in ROWS]
    assert alone == pytest.approx(found.tolist(), abs=5e-6)
    in_bfloat16 = open_metric(str(tmp_path / "metric"), "bf16").score(ROWS)
    assert in_bfloat16.tolist() == pytest.approx(SCORES[kind], abs=0.05)
    assert in_bfloat16.tolist() != pytest.approx(SCORES[kind], abs=5e-6)


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        # By hand: a threshold t with sum of max(z - t, 0) = 1 is 0.4, 1/3 and 1.
        ([1.0, 0.8, -1.0], [0.6, 0.4, 0.0]),
        ([2 / 3, 2 / 3, 2 / 3], [1 / 3, 1 / 3, 1 / 3]),
        ([2.0, 0.0], [1.0, 0.0]),
    ],
)
def test_sparsemax_projects_onto_the_simplex(logits: list[float], expected: list[float]) -> None:
    assert sparsemax(torch.tensor(logits)).tolist() == pytest.approx(expected)
