"""Data are never swapped under checkpoints that were trained on other data."""

import json

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.pipeline.prepare import check_data_and_print, prepare
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
        ("data.train.0.sentences=299", "data.train.0.sentences was 300, now 299"),
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


@pytest.fixture
def of_files(tiny_run, tmp_path):
    """A function that returns a run on two files, with other overrides; it has checkpoints."""
    pairs = list(generate_pairs("train", 200))
    for side, lines in enumerate(zip(*pairs, strict=True), 1):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    corpus = f'{{source = "{tmp_path}/train.1", target = "{tmp_path}/train.2"}}'

    def make(*overrides: str):
        return tiny_run(f"data.train.0={corpus}", "training.max_steps=1", *overrides)

    run = make()
    prepare(run.recipe, run.workspace)
    run.train()
    return make


def refuse(run, capsys) -> str:
    """Returns the error of preparing again, and checks that nothing was done before it."""
    before = (run.workspace.data / "prepared.json").read_bytes()
    capsys.readouterr()
    with pytest.raises(MtkitError, match="checkpoints of another run"):
        check_data_and_print(run.recipe, run.workspace)
    with pytest.raises(MtkitError, match="checkpoints of another run") as caught:
        prepare(run.recipe, run.workspace)
    assert "preparing" not in capsys.readouterr().err
    assert not run.workspace.data_draft.exists()
    assert (run.workspace.data / "prepared.json").read_bytes() == before
    assert caught.value.hint.startswith("set another `name`")
    return caught.value.message


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            'data.train=[{builtin = "phrasebook"}, {builtin = "phrasebook", name = "b"}]',
            "data.train had 1 section, now 2",
        ),
        ("data.train.0.max_pairs=100", "data.train.0.max_pairs was absent, now 100"),
        ("data.cleaning.length_ratio.max_ratio=9", "max_ratio was 2.0, now 9.0"),
        ("data.dev.sentences=10", "data.dev.sentences was 20, now 10"),
    ],
)
def test_other_data_are_refused_before_any_work(of_files, capsys, override, said) -> None:
    assert said in refuse(of_files(override), capsys)


def test_a_corpus_more_is_all_that_is_said(of_files, tmp_path, capsys) -> None:
    more = f'{{source = "{tmp_path}/train.2", target = "{tmp_path}/train.1"}}'
    run = of_files()
    both = of_files(f"data.train=[{more}, {more[:-1]}, name = 'b'}}]")
    message = f"{run.workspace.checkpoints} contains checkpoints of another run: "
    assert refuse(both, capsys) == f"{message}data.train had 1 section, now 2"


def test_an_edited_or_another_file_is_refused_before_any_work(of_files, tmp_path, capsys) -> None:
    edited = tmp_path / "train.2"
    other = tmp_path / "other.2"
    other.write_text(edited.read_text().replace("e", "ee", 1))
    run = of_files(f"data.train.0.target={other}")
    size = edited.stat().st_size
    assert f"train.2 had {size:,} bytes, now other.2 has {size + 1:,}" in refuse(run, capsys)
    edited.write_text(other.read_text())
    assert f"now train.2 has {size + 1:,}" in refuse(of_files(), capsys)


def test_a_file_of_the_same_size_is_compared_and_replaces_nothing(
    of_files, tmp_path, capsys
) -> None:
    edited, run = tmp_path / "train.2", of_files()
    text = edited.read_text()
    before = (run.workspace.data / "prepared.json").read_bytes()
    edited.write_text(text.replace("e", "a", 1))
    capsys.readouterr()
    with pytest.raises(MtkitError, match="the training or development data have changed"):
        prepare(run.recipe, run.workspace)
    said = " ".join(capsys.readouterr().err.split())
    assert "train.2 has changed: the data are prepared again, and replaced only if" in said
    assert (run.workspace.data / "prepared.json").read_bytes() == before
    # The same text at another time, and in another file.
    edited.write_text(text)
    prepare(run.recipe, run.workspace)
    edited.rename(tmp_path / "moved.2")
    moved = of_files(f"data.train.0.target={tmp_path}/moved.2")
    prepare(moved.recipe, moved.workspace)
    assert moved.train()


def test_a_checkpoint_of_a_run_on_other_data_is_refused(tiny_run) -> None:
    run = tiny_run("training.max_steps=1")
    run.train()
    [checkpoint] = run.workspace.checkpoints.glob("step-*")
    assert load_models([checkpoint], device="cpu")
    state = checkpoint / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "data_digest": "other"}))
    with pytest.raises(MtkitError, match="was trained on different data than"):
        load_models([checkpoint], device="cpu")
