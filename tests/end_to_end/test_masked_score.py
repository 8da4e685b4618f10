"""`mtkit score` of a masked language model, by the commands."""

import json
from pathlib import Path

import pytest

from mtkit.training.metrics import read_metrics

from ..command import Done, run_here

TEST_SET = "evaluation.test_sets=[{name = 'held-out', text = 'dev.txt'}]"
SETTINGS = ("training.masking={next_sentence = false}", "training.averaging.num_checkpoints=1")


def call(command: list[str]) -> Done:
    return run_here(Path.cwd(), *command[3:])


def test_a_test_set_is_scored_as_the_development_set_is(tiny_run_of) -> None:
    run = tiny_run_of("masked-lm", TEST_SET, *SETTINGS)
    made = call(run.cold_command("run"))
    assert made.returncode == 0, made.stderr
    scored = call(run.cold_command("score", "--json"))
    assert scored.returncode == 0, scored.stderr
    accuracy, perplexity = json.loads(scored.stdout)
    dev = [line for line in read_metrics(run.workspace.metrics_file) if line["kind"] == "dev"][-1]
    assert (accuracy["metric"], accuracy["test_set"]) == ("masked accuracy", "held-out")
    assert accuracy["value"] == pytest.approx(dev["masked_accuracy"])
    assert perplexity["metric"] == "perplexity per masked token"
    assert perplexity["value"] == pytest.approx(dev["perplexity"], rel=1e-5)
    assert accuracy["interval"]["low"] <= accuracy["value"] <= accuracy["interval"]["high"]
    assert "share:0.15" in accuracy["signature"]
    card = (run.workspace.model / "README.md").read_text("utf-8")
    assert "| held-out | masked accuracy |" in card
    # Whatever is read together.
    again = call(run.cold_command("score", "--json", "--set", "inference.batch_tokens=100"))
    first, second = json.loads(again.stdout)
    assert first["value"] == accuracy["value"]
    assert second["value"] == pytest.approx(perplexity["value"], rel=1e-5)

    missing = call(run.cold_command("score", "--set", TEST_SET.replace("dev.txt", "absent.txt")))
    assert missing.returncode == 1
    assert "absent.txt" in missing.stderr
