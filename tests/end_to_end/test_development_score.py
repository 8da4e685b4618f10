"""What is measured while training = what `mtkit translate` and `mtkit score` come to afterwards.

Scores are equal to every digit: `mtkit score --json` prints them in full precision, and so does
metrics.jsonl. Both sides compute with one thread, since another number adds in another order.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from mtkit.data.prepared import open_prepared
from mtkit.training.metrics import read_metrics

from .. import warm

LEARNS_A_LITTLE = (
    "model.d_model=64",
    "model.d_ff=128",
    "model.dropout=0.1",
    "training.schedule.peak=5e-3",
    "training.schedule.warmup_steps=20",
    "training.batch_tokens=1200",
    "training.micro_batch_tokens=1200",
    "training.checkpoint_every=90",
    "training.max_steps=110",
    # A model that doesn't end its outputs yet: tighter than validation's own bounds.
    "inference.no_repeat_ngram=3",
    "inference.max_extra_tokens=5",
)


def output_of(command: list[str], stdin: str = "") -> str:
    """Returns what a command writes to stdout."""
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        input=stdin.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def translate(checkpoint: Path, lines: list[str]) -> list[str]:
    """Returns translations as `mtkit translate --model CHECKPOINT` makes them, greedily."""
    command = [*warm.command(), "translate", "--model", str(checkpoint)]
    command += ["--set", "inference.beam_size=1"]
    stdin = "".join(f"{line}\n" for line in lines)
    return output_of(command, stdin).split("\n")[:-1]


def score(folder: Path, hypotheses: list[str], references: list[str]) -> dict[str, float]:
    """Returns scores by `mtkit score`, by the words of metrics.jsonl."""
    paths = []
    for name, lines in (("hypothesis", hypotheses), ("reference", references)):
        path = folder / name
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        paths += [f"--{name}", str(path)]
    rows = json.loads(output_of([*warm.command(), "score", *paths, "--json"]))
    values = {row["metric"]: row["value"] for row in rows}
    return {"bleu": values["BLEU"], "chrf": values["chrF2"]}


def measured(run) -> dict[int, dict[str, float]]:
    """Returns the scores of metrics.jsonl by step."""
    lines = read_metrics(run.workspace.metrics_file)
    return {
        line["step"]: {name: line[name] for name in ("bleu", "chrf")}
        for line in lines
        if line["kind"] == "dev"
    }


@pytest.mark.patient
@pytest.mark.parametrize("overrides", [(), ("training.moving_average.decay=0.9",)])
def test_a_checkpoint_is_worth_what_was_measured(tiny_run, tmp_path: Path, overrides) -> None:
    run = tiny_run(*LEARNS_A_LITTLE, *overrides)
    output_of(run.command("train"))
    found = measured(run)
    assert list(found) == [90, 110]
    assert all(value > 0 for scores in found.values() for value in scores.values())
    assert found[90] != found[110]
    sources, references = open_prepared(run.recipe, run.workspace).dev_text
    for step, scores in found.items():
        checkpoint = run.workspace.checkpoints / f"step-{step:08d}"
        hypotheses = translate(checkpoint, sources)
        assert score(tmp_path, hypotheses, references) == scores


@pytest.mark.patient
def test_processes_measure_what_their_shares_come_to(tiny_run, tmp_path: Path) -> None:
    run = tiny_run(*LEARNS_A_LITTLE, "training.max_steps=90")
    output_of(run.command("train", "--processes", "2"))
    [checkpoint] = run.workspace.checkpoints.iterdir()
    sources, references = open_prepared(run.recipe, run.workspace).dev_text
    # Each process translates every second sentence: other batches, which round otherwise.
    hypotheses = [""] * len(sources)
    for rank in range(2):
        hypotheses[rank::2] = translate(checkpoint, sources[rank::2])
    assert score(tmp_path, hypotheses, references) == measured(run)[90]
    assert measured(run)[90]["bleu"] > 0
    whole = translate(checkpoint, sources)
    num_differing = sum(ours != theirs for ours, theirs in zip(hypotheses, whole, strict=True))
    print(f"{num_differing} of {len(sources)} lines differ between shares and the whole")
    # Only where two words are as good as equally likely.
    assert num_differing <= 1
