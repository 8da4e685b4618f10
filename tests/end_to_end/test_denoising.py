"""A denoising model: text in, a model that fills masks and that a translator starts from out."""

import json
from pathlib import Path

import pytest

from .test_language_model import run_mtkit, write_text

RECIPE = """\
name = "tiny-denoising"
objective = "denoising"
[data]
language = "mul"
block_tokens = 32
[[data.train]]
text = "train.txt"
[data.dev]
text = "dev.txt"
[tokenizer]
vocab_size = 64
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
norm = "pre"
dropout = 0.0
[training]
max_steps = 80
batch_tokens = 512
length_groups = 1
micro_batch_tokens = 512
label_smoothing = 0.0
checkpoint_every = 40
schedule = {kind = "cosine", peak = 1e-2, warmup_steps = 10}
validation = {metric = "loss"}
averaging = {num_checkpoints = 2}
denoising = {share = 0.2}
"""
TRANSLATOR = """\
name = "tiny"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
builtin = "phrasebook"
sentences = 100
[data.dev]
builtin = "phrasebook"
sentences = 5
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
norm = "pre"
[training]
max_steps = 2
batch_tokens = 512
length_groups = 1
micro_batch_tokens = 512
checkpoint_every = 2
averaging = {num_checkpoints = 1}
[training.start_from]
model = "runs/tiny-denoising/model"
"""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("denoising")
    (folder / "mtkit.toml").write_text(RECIPE, encoding="utf-8")
    for name, seed, count in (("train", 1, 300), ("dev", 2, 20)):
        write_text(folder / f"{name}.txt", seed, count)
    run_mtkit(folder, "run")
    return folder


def read_perplexities(folder: Path) -> list[float]:
    lines = (folder / "runs/tiny-denoising/metrics.jsonl").read_text("utf-8").splitlines()
    return [found["perplexity"] for found in map(json.loads, lines) if found["kind"] == "dev"]


def test_it_learns_to_write_the_text(run_folder: Path) -> None:
    first, last = read_perplexities(run_folder)
    # A vocabulary of 64 pieces; without the source, two of nine words are open, and two digits.
    assert 1.0 < last < first < 64.0


def test_masks_of_lines_are_filled(run_folder: Path) -> None:
    lines = ["the red<mask> is near the tree number 42", "", "the<mask> number 17"]
    filled = run_mtkit(run_folder, "translate", text="\n".join(lines) + "\n").stdout.splitlines()
    assert len(filled) == 3
    assert not filled[1]
    assert filled[0].startswith("the ")
    assert "<mask>" not in "".join(filled)
    card = (run_folder / "runs/tiny-denoising/model/README.md").read_text("utf-8")
    assert "a denoising language model of mul" in card
    assert "mtkit translate --model ." in card


def test_a_second_run_does_nothing(run_folder: Path) -> None:
    printed = run_mtkit(run_folder, "run").stderr
    for stage in ("prepare: up to date", "train: already finished", "average: up to date"):
        assert stage in printed


def test_a_translator_starts_from_it(run_folder: Path) -> None:
    (run_folder / "tiny.toml").write_text(TRANSLATOR, "utf-8")
    printed = run_mtkit(run_folder, "run", "--recipe", "tiny.toml").stderr
    assert "reusing the vocabulary of" in printed
    assert "tiny-denoising/model, which has 64 of 64 pieces" in printed
    assert "that model is of mul; this run trains it for en-de" in printed
    card = (run_folder / "runs/tiny/model/README.md").read_text("utf-8")
    assert "- started from: `runs/tiny-denoising/model`" in card
