"""Data are never swapped under checkpoints that were trained on other data."""

import json

import pytest

from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.pipeline.prepare import prepare
from mtkit.pipeline.translate import load_models


def test_the_same_data_may_be_prepared_again(tiny_run) -> None:
    run = tiny_run("training.max_steps=1")
    run.train()
    before = open_prepared(run.recipe, run.workspace).digest
    prepare(run.recipe, run.workspace)
    assert open_prepared(run.recipe, run.workspace).digest == before


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.d_ff=64", "model.d_ff was 32, now 64"),
        ("tokenizer.vocab_size=390", "tokenizer.vocab_size was 400, now 390"),
        ("data.train.0.sentences=299", "the training or development data have changed"),
    ],
)
def test_other_data_are_refused_while_there_are_checkpoints(tiny_run, override, said) -> None:
    run = tiny_run("training.max_steps=1")
    run.train()
    before = (run.workspace.data / "prepared.json").read_bytes()
    other = tiny_run(override)
    with pytest.raises(MtkitError, match="checkpoints of another run") as caught:
        prepare(other.recipe, other.workspace)
    assert said in caught.value.message
    assert (run.workspace.data / "prepared.json").read_bytes() == before
    assert run.train()


def test_a_checkpoint_of_a_run_on_other_data_is_refused(tiny_run) -> None:
    run = tiny_run("training.max_steps=1")
    run.train()
    [checkpoint] = run.workspace.checkpoints.glob("step-*")
    assert load_models([checkpoint], device="cpu")
    state = checkpoint / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "data_digest": "other"}))
    with pytest.raises(MtkitError, match="was trained on different data than"):
        load_models([checkpoint], device="cpu")
