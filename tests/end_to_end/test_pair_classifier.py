"""A classifier that learns what a translation is from planted faults, and cleans a corpus by it."""

import json
import random
from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.preparation.text_store import TextStore

from ..command import Done, run_here

CLASSIFIER = """\
name = "pairs"
objective = "classification"
[data]
language = "mul"
block_tokens = 64
[[data.train]]
source = "train.en"
target = "train.de"
planted_faults = ["truncated"]
[data.dev]
source = "dev.en"
target = "dev.de"
planted_faults = ["truncated"]
[[evaluation.test_sets]]
name = "test"
source = "test.en"
target = "test.de"
planted_faults = ["truncated"]
[tokenizer]
vocab_size = 800
[model]
num_encoder_layers = 2
d_model = 32
d_ff = 64
num_heads = 4
norm = "pre"
positions = "learned"
max_positions = 64
activation = "gelu"
embedding_norm = true
initial_std = 0.1
dropout = 0.0
[training]
max_steps = 180
batch_tokens = 3000
length_groups = 1
micro_batch_tokens = 3000
label_smoothing = 0.0
precision = "fp32"
checkpoint_every = 180
schedule = { kind = "linear", peak = 5e-3, warmup_steps = 20 }
validation = { metric = "accuracy" }
averaging = { num_checkpoints = 1 }
"""
TRANSLATOR = """\
name = "translator"
[data]
source_language = "en"
target_language = "de"
train = [{ source = "noisy.en", target = "noisy.de" }]
dev = { source = "dev.en", target = "dev.de" }
[data.cleaning.selection]
classifier = "runs/pairs/model"
min_probability = 0.5
[tokenizer]
vocab_size = 400
"""
NUM_PAIRS, NUM_WRONG = 400, 100


def run_mtkit(folder: Path, *arguments: str, text: str = "", code: int = 0) -> Done:
    done = run_here(folder, *arguments, text=text)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    pairs = list(generate_pairs("train", 1_500 + NUM_PAIRS))
    noisy = pairs[1_500:]
    targets = [target for _, target in noisy]
    # The last hundred have lost their ends.
    targets[-NUM_WRONG:] = [" ".join(target.split()[:3]) for target in targets[-NUM_WRONG:]]
    noisy = [(source, target) for (source, _), target in zip(noisy, targets, strict=True)]
    random.Random(1).shuffle(noisy)
    splits = {
        "train": pairs[:1_500],
        "noisy": noisy,
        "dev": list(generate_pairs("dev", 100)),
        "test": list(generate_pairs("test", 100)),
    }
    for name, rows in splits.items():
        for language, lines in zip(("en", "de"), zip(*rows, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, "utf-8")
    (folder / "pairs.toml").write_text(CLASSIFIER)
    (folder / "mtkit.toml").write_text(TRANSLATOR)
    run_mtkit(folder, "run", "--recipe", "pairs.toml")
    return folder


def read_kept(project: Path, workspace: str) -> set[tuple[str, str]]:
    data = project / workspace / "data"
    text = TextStore(data / "text", left_out=data / "selection" / "left_out.npy")
    return {
        (row["source"], row["target"]) for part in text.iterate_unique() for row in part.to_pylist()
    }


def test_pairs_that_are_no_translations_are_left_out(project: Path) -> None:
    scores = json.loads((project / "runs/pairs/scores.json").read_text("utf-8"))["scores"]
    assert scores[0]["metric"] == "accuracy"
    assert scores[0]["value"] > 60.0
    said = run_mtkit(project, "prepare", "--workspace", "w").stderr
    assert "probabilities of a fault up to 0.500" in said
    kept = read_kept(project, "w")
    right = set(generate_pairs("train", 1_500 + NUM_PAIRS))
    lines = [(project / f"noisy.{side}").read_text("utf-8").splitlines() for side in ("en", "de")]
    noisy = set(zip(*lines, strict=True))
    wrong = noisy - right
    # Of some, the length ratio has told already.
    assert len(wrong) > 0.9 * NUM_WRONG
    assert len(wrong & kept) / len(wrong) < 0.5 * len(kept - wrong) / len(noisy - wrong)
    report = json.loads((project / "w/data/report.json").read_text("utf-8"))
    assert report["selection"]["unit"] == "probability"
    assert report["selection"]["limit"] == 0.5
    # What the report calls P(fault) is what the classifier says of the pair.
    [worst, *_] = reversed(report["selection"]["samples"]["highest"])
    line = f"{worst['source']}\t{worst['target']}\n"
    told = run_mtkit(project, "translate", "--model", "runs/pairs/model", "--json", text=line)
    assert json.loads(told.stdout)["probabilities"]["fault"] == pytest.approx(
        worst["difference"], abs=2e-4
    )
    said = run_mtkit(project, "prepare", "--workspace", "w").stderr
    assert "up to date" in said


def test_a_share_and_what_is_refused(project: Path) -> None:
    options = ["--set", "~data.cleaning.selection.min_probability"]
    keep = [*options, "--set", "data.cleaning.selection.keep=0.5"]
    said = run_mtkit(project, "prepare", "--check", "--workspace", "none", *keep).stderr
    assert " pairs of a sample are selected: probabilities of a fault up to " in said
    label = ["--set", "data.cleaning.selection.label=translatoin"]
    said = run_mtkit(project, "prepare", "--workspace", "none", *label, code=1).stderr
    assert "has no label 'translatoin'" in said
    assert "did you mean 'translation'?" in said
    model = ["--set", "data.cleaning.selection.classifier=runs/nothing/model"]
    said = run_mtkit(project, "prepare", "--workspace", "none", *model, code=1).stderr
    assert "runs/nothing/model: no such folder (data.cleaning.selection)" in said
    both = ["--set", "data.cleaning.selection.in_domain_source=runs/pairs/model"]
    said = run_mtkit(project, "prepare", "--workspace", "none", *both, code=1).stderr
    assert "give either a classifier or language models" in said
    other = [*options, "--set", "data.cleaning.selection.max_difference=0.5"]
    said = run_mtkit(project, "prepare", "--workspace", "none", *other, code=1).stderr
    assert "min_probability is for a classifier" in said
    assert not (project / "none").exists()
