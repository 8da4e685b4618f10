"""The whole road of a causal language model: text in, a scored model that continues lines out."""

import json
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from ..command import Done, run_here

RECIPE = """\
name = "tiny-lm"
objective = "causal-lm"
[data]
language = "en"
block_tokens = 24
[[data.train]]
text = "train.en"
[data.dev]
text = "dev.en"
[tokenizer]
vocab_size = 64
[model]
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
positions = "learned"
max_positions = 24
[training]
max_steps = 60
batch_tokens = 512
length_groups = 1
micro_batch_tokens = 512
label_smoothing = 0.0
checkpoint_every = 30
schedule = {kind = "cosine", peak = 3e-3, warmup_steps = 5}
validation = {metric = "loss"}
averaging = {num_checkpoints = 2}
[inference]
max_extra_tokens = 6
[[evaluation.test_sets]]
name = "held-out"
text = "test.en"
"""
WORDS = ["red", "green", "blue"]
THINGS = ["house", "tree", "boat", "bird"]


def write_text(path: Path, seed: int, num_documents: int) -> None:
    generator = random.Random(seed)
    documents = [
        "".join(
            f"the {generator.choice(WORDS)} {generator.choice(THINGS)} is near the "
            f"{generator.choice(THINGS)} number {generator.randint(10, 99)}\n"
            for _ in range(generator.randint(1, 4))
        )
        for _ in range(num_documents)
    ]
    path.write_text("\n".join(documents), encoding="utf-8")


def run_mtkit(folder: Path, *arguments: str, text: str = "") -> Done:
    done = run_here(folder, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    (folder / "mtkit.toml").write_text(RECIPE, encoding="utf-8")
    for name, seed, count in (("train", 1, 300), ("dev", 2, 20), ("test", 3, 20)):
        write_text(folder / f"{name}.en", seed, count)
    run_mtkit(folder, "run")
    return folder


def read_perplexities(folder: Path) -> dict[str, float]:
    printed = run_mtkit(folder, "score", "--json").stdout
    return {row["metric"]: row["value"] for row in json.loads(printed)}


def test_it_predicts_better_than_counts_of_characters(run_folder: Path) -> None:
    found = read_perplexities(run_folder)
    # Entropy of a character by the test text's own counts, which knows no context.
    text = "".join(
        line
        for line in (run_folder / "test.en").read_text("utf-8").splitlines(keepends=True)
        if line.strip()
    )
    counts = Counter(text)
    entropy = -sum(count * math.log2(count / len(text)) for count in counts.values()) / len(text)
    assert 0.2 < found["bits per character"] < entropy / 2
    assert found["perplexity per character"] == pytest.approx(2 ** found["bits per character"])
    # The same log-probability over more units.
    total = math.log(found["perplexity per character"]) * len(text)
    num_words = sum(len(line.split()) + 1 for line in text.splitlines())
    assert math.log(found["perplexity per word"]) * num_words == pytest.approx(total)


def test_lines_are_continued(run_folder: Path) -> None:
    lines = ["the red", "", "the green boat is near the"]
    printed = run_mtkit(run_folder, "translate", text="\n".join(lines) + "\n").stdout
    continued = printed.splitlines()
    assert len(continued) == len(lines)
    assert continued[1] == ""
    for line, found in zip(lines, continued, strict=True):
        assert found.startswith(line)
        assert len(found) > len(line) or not line


def test_a_second_run_does_nothing(run_folder: Path) -> None:
    printed = run_mtkit(run_folder, "run").stderr
    assert "prepare: up to date" in printed
    assert "train: already finished" in printed or "train: finished already" in printed
    card = (run_folder / "runs" / "tiny-lm" / "model" / "README.md").read_text("utf-8")
    assert "perplexity per character" in card
