"""Stages of a training: which corpora are read when, stopped at any update, by any processes."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.data.prepare import prepare
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.training import loop
from mtkit.training.distributed import ProcessGroup
from mtkit.training.dry_run import rehearse
from mtkit.training.objectives.stored import TranslationBatches
from mtkit.training.objectives.texts import CausalBatches, DenoisingBatches, MaskedBatches
from mtkit.training.training_run import TrainingRun

from .test_processes import NO_DROPOUT, losses, sentences, train
from .test_resume import interrupting

PAIRS = (
    "data.train=[{builtin='phrasebook', sentences=300, max_pairs=150, name='one'}, "
    "{builtin='phrasebook', sentences=300, skip='1-150', name='two'}]"
)
# An epoch of either corpus is six updates, and of both eleven.
STAGES = (
    "training.stages=[{steps=3, weights={two=0}}, {steps=5, weights={one=0, two=2}}, "
    "{weights={one=0.5}}]"
)
TEXT = "data.train=[{text='train.txt', max_pairs=150, name='one'}, "
TEXT += "{text='train.txt', skip='1-150', name='two'}]"


@pytest.fixture
def staged_run(tiny_run_of: Callable) -> Callable:
    def make(objective: str = "translation", *changes: str, name: str = "run"):
        corpora = PAIRS if objective == "translation" else TEXT
        if objective == "masked-lm":
            changes = ("~training.masking", *changes)
        run = tiny_run_of(objective, corpora, STAGES, *changes, name=name)
        prepare(run.recipe, run.workspace)
        return run

    return make


BATCHES = {
    "translation": TranslationBatches,
    "causal-lm": CausalBatches,
    "masked-lm": MaskedBatches,
    "denoising": DenoisingBatches,
}


@pytest.mark.parametrize("objective", BATCHES)
def test_each_stage_reads_its_own_corpora(staged_run, objective: str) -> None:
    run = staged_run(objective)
    data = open_prepared(run.recipe, run.workspace)
    batches = BATCHES[objective](
        TrainingRun(run.recipe, run.workspace, data),
        ProcessGroup(0, 1, torch.device("cpu")),
        dtype=torch.float32,
        packs=False,
    )
    strata = data.train_order.strata
    corpora = np.empty(len(data.train), np.int64)
    corpora[data.train_order.rows] = np.repeat(strata["corpus"], strata["count"])
    place, read = (0, 0), []
    for _ in range(12):
        update = batches.update(*place, 256)
        read.append(sorted(set(corpora[update.examples])))
        batches.prefetch(update)
        place = update.following
    assert read[:8] == [[0]] * 3 + [[1]] * 5
    assert {corpus for update in read[8:] for corpus in update} == {0, 1}


def test_stopped_and_resumed_at_every_step(staged_run, monkeypatch, capsys) -> None:
    whole, run = staged_run(name="whole"), staged_run()
    capsys.readouterr()
    assert whole.train()
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("stage")] == [
        "stage 1 of 3, from step 1 on: weights one 1, two 0",
        "stage 2 of 3, from step 4 on: weights one 0, two 2",
        "stage 3 of 3, from step 9 on: weights one 0.5, two 1",
    ]
    for step in range(1, 12):
        with monkeypatch.context() as patch:
            patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, step))
            assert not run.train()
    assert run.train()
    assert run.weights() == whole.weights()
    # Each session begins with the stage that it is in.
    again = capsys.readouterr().err
    assert [again.count(f"stage {number} of 3") for number in (1, 2, 3)] == [3, 6, 5]
    # 225 of the 300 pairs that eleven updates hold.
    assert re.search("resuming from step 10: epoch 3, update 2 of [89],", again)


def test_resumed_by_another_number_of_processes(staged_run, tmp_path: Path) -> None:
    run = staged_run()
    changes = (PAIRS, STAGES, *NO_DROPOUT)
    [one] = train(run, tmp_path / "one", (1, 256), 12, *changes)
    ranks = train(run, tmp_path / "two", (2, 400), 12, *changes)
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-10, abs=0)
    assert sentences(ranks) == sentences([one])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("training.stages.2.weights.two=3", "training.stages.2.weights.two was absent, now 3.0"),
        ("training.stages.1.steps=4", "training.stages.1.steps was 5, now 4"),
        ("~training.stages", "training.stages was "),
        ("data.train.0.name=two", 'data.train.0.name was "one", now "two"'),
    ],
)
def test_other_stages_are_another_run(staged_run, kept: Path, change: str, said: str) -> None:
    staged_run("translation", "training.max_steps=9").train_once(kept)
    changes = [change]
    if change.startswith("data"):
        changes.append("data.train.1.name=one")
    run = staged_run("translation", *changes)
    with pytest.raises(MtkitError, match="another run") as caught:
        run.train()
    assert said in caught.value.message
    assert caught.value.message.count(" was ") == 1 + change.startswith("data")


def test_a_stage_whose_corpora_are_empty(staged_run) -> None:
    run = staged_run("translation", "data.train.1.skip=1-")
    with pytest.raises(MtkitError, match=r"training.stages.1.weights: no pairs"):
        run.train()


def test_the_stages_are_in_the_plan(staged_run, capsys) -> None:
    run = staged_run()
    opened = TrainingRun.open(run.recipe, run.workspace)
    rehearse(opened, num_processes=1, num_machines=1, device="cpu")
    said = capsys.readouterr().err
    assert said.count("stage 3 of 3, from step 9 on: weights one 0.5, two 1\n") == 1
    assert said.count("one epoch") == 1  # By `prepare`, with the corpora's own weights.
