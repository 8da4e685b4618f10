"""A classifier from labelled texts to labels and scores, by the commands."""

import json
from pathlib import Path

import pytest

from mtkit.training.metrics import read_metrics

from ..command import Done, run_here


def train(tiny_run_of, *overrides: str):
    run = tiny_run_of(
        "classification",
        "training.max_steps=40",
        "training.checkpoint_every=40",
        "training.schedule.peak=1e-2",
        *overrides,
    )
    assert run.train()
    return run


def call(command: list[str], text: str = "") -> Done:
    return run_here(Path.cwd(), *command[3:], text=text)


def test_labels_of_the_development_set_are_those_that_were_scored(tiny_run_of) -> None:
    run = train(tiny_run_of)
    lines = (run.workspace.data / "dev" / "text.txt").read_text("utf-8")
    wanted = (run.workspace.data / "dev" / "labels.txt").read_text("utf-8").splitlines()
    labelled = call(run.cold_command("translate"), lines)
    assert labelled.returncode == 0, labelled.stderr
    found = labelled.stdout.splitlines()
    num_right = sum(map(str.__eq__, found, wanted))
    [last] = [line for line in read_metrics(run.workspace.metrics_file) if line["kind"] == "dev"]
    assert last["accuracy"] == pytest.approx(100.0 * num_right / len(wanted))

    as_json = call(run.cold_command("translate", "--json"), "The man sleeps.\n\n")
    full, blank = map(json.loads, as_json.stdout.splitlines())
    assert full["probabilities"].keys() == {"de", "en"}
    assert sum(full["probabilities"].values()) == pytest.approx(1.0)
    assert full["label"] == max(full["probabilities"], key=full["probabilities"].get)
    assert blank == {"label": None, "probabilities": {}}

    scored = call(run.cold_command("score"))
    assert scored.returncode == 0, scored.stderr
    assert [line.split("\t")[:2] for line in scored.stdout.splitlines()] == [
        ["test", "accuracy"],
        ["test", "macro-F1"],
    ]
    card = (run.workspace.model / "README.md").read_text("utf-8")
    assert "pipeline_tag: text-classification" in card
    assert "| test | accuracy |" in card


def test_what_is_for_translators_is_refused_by_name(tiny_run_of) -> None:
    run = train(tiny_run_of, "training.max_steps=1")
    refused = call(run.cold_command("translate", "--score-only"), "a\tb\n")
    assert refused.returncode == 1
    assert "is a classifier" in refused.stderr
    exported = call(run.cold_command("export"))
    assert exported.returncode == 1
    assert "is a classifier" in exported.stderr
