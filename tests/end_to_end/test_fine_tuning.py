"""A trained model as the start of another training, by the commands as they are typed."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit.data.phrasebook import generate_pairs
from mtkit.model.folder import load_model_folder
from mtkit.training.metrics import read_metrics

from ..command import run_here

# So little that no weight of 32 bits changes.
STANDSTILL = "training.schedule={kind='constant', peak=1e-30}"
OVERRIDES = ("name=tuned", "training.max_steps=1", STANDSTILL)
START = "training.start_from.model=runs/tiny/model"


@pytest.fixture
def project(tiny_run, tmp_path: Path) -> Path:
    """A folder with a recipe as `mtkit.toml`, and what it trained in `runs/tiny`."""
    folder = tmp_path / "project"
    folder.mkdir()
    text = Path(tiny_run().options[1]).read_text()
    (folder / "mtkit.toml").write_text(text.replace("max_steps = 12", "max_steps = 3"))
    for command in ("prepare", "train"):
        mtkit(folder, command)
    return folder


def mtkit(
    folder: Path, *arguments: str, overrides: tuple[str, ...] = (), stdin: str = "", code: int = 0
) -> tuple[str, str]:
    """Returns what a command wrote to stdout and stderr."""
    options = [option for override in overrides for option in ("--set", override)]
    done = run_here(folder, *arguments, *options, text=stdin)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_at_its_start_it_is_the_model_it_starts_from(project: Path) -> None:
    for command in ("prepare", "train"):
        _, said = mtkit(project, command, overrides=(*OVERRIDES, START))
    assert f"starting from {project}/runs/tiny/model, which has 400 of 400 pieces\n" in said
    runs = [project / "runs" / name for name in ("tiny", "tuned")]
    weights = [load_file(run / "model" / "model.safetensors") for run in runs]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    last = [read_metrics(run / "metrics.jsonl")[-1] for run in runs]
    for metric in ("loss", "nll", "bleu", "chrf"):
        assert last[0][metric] == last[1][metric]


def test_tuned_on_other_data_with_a_new_tag(project: Path) -> None:
    pairs = list(generate_pairs("train", 400))[300:]
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (project / f"own.{language}").write_text("".join(f"{line}\n" for line in lines))
    overrides = (
        "name=tuned", "training.max_steps=4", START, "training.freeze=['encoder']",
        "data.train.0={source='own.en', target='own.de', tag='<own>'}",
        "tokenizer.user_symbols=['<ph>']", "tokenizer.sampling={alpha=0.2}",
    )  # fmt: skip
    _, said = mtkit(project, "prepare", "--check", overrides=overrides)
    assert "check passed" in said
    _, said = mtkit(project, "run", overrides=overrides)
    assert f"reusing the vocabulary of {project}/runs/tiny/model, with <own> <ph> added" in said
    assert "which has 400 of 402 pieces; the others start from random vectors" in said
    start, tuned = (
        load_model_folder(project / "runs" / name / "model") for name in ("tiny", "tuned")
    )
    assert tuned.tokenizer.source_vocabulary.pieces == (
        *start.tokenizer.source_vocabulary.pieces,
        "<own>",
        "<ph>",
    )
    assert tuned.tokenizer.tags == ("<own>",)
    for ours, theirs in zip(
        tuned.model.named_parameters(), start.model.named_parameters(), strict=True
    ):
        is_frozen = ours[0].startswith("encoder.")
        same_shape = ours[1].shape == theirs[1].shape
        assert (same_shape and torch.equal(ours[1], theirs[1])) is is_frozen
    lines = "<own> The man sleeps.\n\nThe man sleeps.\n"
    translated, _ = mtkit(project, "translate", "--model", "runs/tuned/model", stdin=lines)
    assert translated.count("\n") == 3
    assert translated.split("\n")[1] == ""
    # All is up to date, and the model that it started from is no longer needed to resume.
    _, said = mtkit(project, "run", overrides=overrides)
    assert "train: already finished" in said
    (project / "runs" / "tiny" / "model").rename(project / "moved")
    _, said = mtkit(project, "train", overrides=(*overrides, "training.max_steps=5"))
    assert "resuming from step 4" in said


def test_what_does_not_fit_is_told_before_anything_is_done(project: Path) -> None:
    overrides = (*OVERRIDES, START)
    absent = "training.start_from.model=runs/absent/model"
    _, said = mtkit(project, "prepare", overrides=(*overrides, absent), code=1)
    assert said == (
        f"error: {project}/runs/absent/model: no model here to reuse the vocabulary of "
        "(training.start_from.model)\n"
        "hint: give a model folder, such as another run's model/; a path in a recipe is "
        "relative to data.data_root\n"
    )
    assert not (project / "runs" / "tuned").exists()
    mtkit(project, "prepare", overrides=overrides)
    wider = ("model.d_model=32", "model.tied_embeddings=decoder")
    _, said = mtkit(project, "train", overrides=(*overrides, *wider), code=1)
    assert said == (
        f"error: {project}/runs/tiny/model: this model's shape differs from the recipe's: "
        "model.d_model = 32, but the model has 16; "
        "model.tied_embeddings = decoder, but the model has three-way\n"
        "hint: --set model.d_model=16 --set model.tied_embeddings=three-way\n"
    )
