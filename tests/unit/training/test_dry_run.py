"""What is said of a training before it starts."""

import re

import numpy as np
import pytest

from mtkit.data.prepared import open_prepared
from mtkit.training.dry_run import BatchPlan, rehearse
from mtkit.training.training_run import TrainingRun


def test_the_arithmetic_of_an_update_as_a_line() -> None:
    plan = BatchPlan(8, 4_096, 180, 830.4, 24_310.2, 24_950.0, 1.0, 0.042)
    assert plan.describe(25_000, "cuda") == (
        "one update: 24,310 source + 24,950 target tokens in 830 pairs (means; at most 25,000 per "
        "side) = 8 x cuda x 1.0 pass of at most 4,096 tokens per side; 4.2 % padding"
    )


@pytest.mark.parametrize(("num_processes", "moments"), [(1, "Adam's"), (2, "1/2 of Adam's")])
def test_a_rehearsal_measures_and_leaves_nothing(
    tiny_run, capsys, num_processes: int, moments: str
) -> None:
    run = tiny_run("training.freeze=['encoder']", "training.shard=true")
    before = {path: path.stat().st_mtime_ns for path in run.workspace.root.rglob("*")}
    rehearse(
        TrainingRun.open(run.recipe, run.workspace),
        num_processes=num_processes,
        num_machines=1,
        device="cpu",
    )
    assert {path: path.stat().st_mtime_ns for path in run.workspace.root.rglob("*")} == before
    said = capsys.readouterr().err
    store = open_prepared(run.recipe, run.workspace).train
    lengths = store.lengths(np.arange(len(store)))
    # The updates of an epoch hold every pair once, so that their means are known.
    num_updates = int(re.search(r"pairs in (\d+) updates", said)[1])
    source, target = re.search(r"one update: (\d+) source \+ (\d+) target", said).groups()
    assert int(source) == round(lengths["source"].sum() / num_updates)
    assert int(target) == round(lengths["target"].sum() / num_updates)
    assert f"= {num_processes} x cpu x " in said
    assert "14,192 parameters: encoder 4,448, decoder 3,344, embeddings 6,400; 4,448 of" in said
    assert "target tokens/s" in said
    assert f" for weights, gradients and {moments} moments; peak " in said
    assert re.search(r"s per validation, .* for \d+ \(from 3 updates", said)
    assert said.endswith("nothing was trained; to train, run the same command without --dry-run\n")
