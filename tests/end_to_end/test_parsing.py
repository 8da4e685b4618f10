"""A parser by the commands: from a treebank to scored trees."""

import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from mtkit.text.trees.brackets import parse_tree
from mtkit.training.metrics import read_metrics

from .. import warm
from ..command import Done, run_here

RECIPE = """\
name = "parser"
[data]
source_language = "en"
[data.parsing]
linearization = "tensor2tensor"
[[data.train]]
trees = "train.mrg"
[data.dev]
trees = "dev.mrg"
[tokenizer]
vocab_size = 80
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 64
d_ff = 128
num_heads = 4
norm = "pre"
dropout = 0.0
[training]
max_steps = 120
batch_tokens = 1024
length_groups = 1
micro_batch_tokens = 1024
checkpoint_every = 60
schedule = { kind = "linear", peak = 5e-3, warmup_steps = 20 }
averaging = { choose = "last", num_checkpoints = 1 }
[inference]
processes = 1
[[evaluation.test_sets]]
name = "held-out"
trees = "dev.mrg"
"""


def make_trees() -> list[str]:
    """Returns the trees of all sentences of a small grammar, in a fixed order without a pattern."""
    phrases = [
        f"(NP-SBJ (DT {the}) (NN {noun}))" for the in ("the", "a") for noun in ("cat", "dog", "man")
    ]
    phrases += [
        "(NP (NNP Mary))",
        "(NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT a) (NN dog))))",
    ]
    verbs = [("VBZ", "sees"), ("VBD", "-LRB-saw-RRB-")]
    trees = [
        f"( (S {subject}\n    (VP ({tag} {verb}) {thing} (ADVP-TMP (RB now)))\n    ({dot} {dot})) )"
        for subject, (tag, verb), thing, dot in itertools.product(phrases, verbs, phrases, ".:")
    ]
    return [trees[97 * number % len(trees)] for number in range(len(trees))]


def call(*arguments: str, cwd: Path, text: str = "") -> Done:
    return run_here(cwd, *arguments, text=text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parser")
    trees = make_trees()
    (folder / "train.mrg").write_text("\n\n".join(trees[40:]), "utf-8")
    (folder / "dev.mrg").write_text("\n".join(trees[:40]), "utf-8")
    (folder / "mtkit.toml").write_text(RECIPE, "utf-8")
    made = call("run", cwd=folder)
    assert made.returncode == 0, made.stderr
    assert "labelled F1 to 40 words" in made.stderr
    return folder


def read_scores(output: str) -> dict[str, float]:
    return {score["metric"]: score["value"] for score in json.loads(output)}


def test_it_learns_and_is_scored(project: Path) -> None:
    dev = [
        line
        for line in read_metrics(project / "runs/parser/metrics.jsonl")
        if line["kind"] == "dev"
    ]
    assert dev[-1]["f1"] > 70.0
    assert "bleu" not in dev[-1]
    scored = call("score", "--json", cwd=project)
    assert scored.returncode == 0, scored.stderr
    values = read_scores(scored.stdout)
    # The test set is the development set, translated by a beam.
    assert values["labelled F1"] == pytest.approx(dev[-1]["f1"], abs=5.0)
    card = (project / "runs/parser/model/README.md").read_text("utf-8")
    assert "| held-out | labelled F1 |" in card
    # Files of trees are scored alike, in whatever layout the reference is.
    hypothesis = project / "runs/parser/translations/held-out.hyp"
    again = call(
        *("score", "--json", "--hypothesis", str(hypothesis), "--reference", "dev.mrg"),
        *("--set", "evaluation.metrics=['parseval']"),
        cwd=project,
    )
    assert again.returncode == 0, again.stderr
    assert read_scores(again.stdout) == values


def ask(project: Path, text: str, *options: str) -> Sequence[str]:
    answered = call("translate", *options, cwd=project, text=text)
    assert answered.returncode == 0, answered.stderr
    return answered.stdout.split("\n")[:-1]


def test_trees_have_the_sentences_words(project: Path) -> None:
    lines = ["the cat sees Mary now .", "", "a (b) 日本 🙂", "dog", "w " * 300]
    found = ask(project, "\n".join(lines) + "\n")
    assert parse_tree(found[0]).words == lines[0].split()
    assert found[1] == ""
    assert parse_tree(found[2]).words == ["a", "-LRB-b-RRB-", "日本", "🙂"]
    assert parse_tree(found[3]).words == ["dog"]
    # Longer than inference.max_source_tokens: no parse of parts.
    assert parse_tree(found[4]).words == ["w"] * 300


def test_repairs_are_told(project: Path) -> None:
    [line] = ask(project, "cat dog cat\n", "--json", "--set", "inference.n_best=2")
    found = json.loads(line)
    assert list(found["repairs"]) == [
        "brackets_added",
        "brackets_removed",
        "leaves_added",
        "leaves_removed",
        "tags_changed",
    ]
    assert [list(one["repairs"]) for one in found["n_best"]] == [list(found["repairs"])] * 2
    cut = json.loads(
        ask(project, "cat dog .\n", "--json", "--set", "inference.max_extra_tokens=0")[0]
    )
    assert sum(cut["repairs"].values()) > 0
    assert parse_tree(cut["text"]).words == ["cat", "dog", "."]


def test_given_trees_are_scored(project: Path) -> None:
    tree = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (NNP Mary)) (ADVP (RB now))) (. .)))"
    other = tree.replace("(NP (DT the) (NN cat))", "(DT the) (NN cat)")
    sentence = "the cat sees Mary now ."
    better, worse = ask(
        project, f"{sentence}\t{tree}\n{sentence}\t{other}\n", "--score-only", "--input", "tsv"
    )
    assert float(better) > float(worse)
    refused = call(
        *("translate", "--score-only", "--input", "tsv"), cwd=project, text=f"{sentence}\t(S (NP\n"
    )
    assert refused.returncode == 1
    assert "input line 1: no tree to score: the tree isn't closed" in refused.stderr


def test_a_checkpoint_parses_as_the_model_does(project: Path) -> None:
    sentence = "a dog sees the man with a dog now :\n"
    checkpoint = "runs/parser/checkpoints/step-00000120"
    assert ask(project, sentence, "--model", checkpoint) == ask(project, sentence)


def test_from_python(project: Path) -> None:
    sentence = "the man with a dog -LRB-saw-RRB- Mary now ."
    ours = ask(project, sentence + "\n")
    program = f"import mtkit; print(mtkit.Translator('runs/parser/model').translate({sentence!r}))"
    printed = subprocess.run(
        [warm.python(), "-c", program], capture_output=True, text=True, check=True, cwd=project
    )
    assert printed.stdout == ours[0] + "\n"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "train.mrg"),
        (b"(TOP (S (NN a))\n", "train.mrg, line 1: this tree isn't closed at the end of the file"),
        (b"(TOP (S (NN a)))\r\n(TOP (S (NN a))))\r\n", "train.mrg, line 2: a closing bracket"),
        (b"the cat sees Mary .\n", "train.mrg, line 1: 'the' is next to brackets"),
        (b"(TOP (S (NN a\xff)))\n", "train.mrg, row 1: byte 2 of the text is invalid UTF-8 (0xff)"),
        (b"(TOP (S (-NONE- *)))\n", "train.mrg: no rows in it"),
    ],
)
def test_what_is_no_treebank(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "train.mrg").write_bytes(content)
    (tmp_path / "dev.mrg").write_text(make_trees()[0], "utf-8")
    (tmp_path / "mtkit.toml").write_text(RECIPE, "utf-8")
    prepared = call("prepare", cwd=tmp_path)
    assert prepared.returncode == 1
    assert fault in prepared.stderr
