"""What a user sees who gets something wrong: the command as it is typed, its words, its exit code.

Every fault is exit 1, an `error:` line that names what and where, a `hint:` line, no traceback and
nothing on stdout.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import mtkit

from .. import warm

RECIPE = """\
name = "tiny"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.cleaning]
max_tokens = 40
[tokenizer]
vocab_size = 60
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 8
d_ff = 8
num_heads = 1
[training]
max_steps = 2
checkpoint_every = 1
batch_tokens = 200
length_groups = 1
micro_batch_tokens = 200
[inference]
beam_size = 1
max_extra_tokens = 0
[[evaluation.test_sets]]
name = "test"
source = "dev.en"
target = "dev.de"
"""

SUBJECTS = {"the man": "der Mann", "the woman": "die Frau", "the child": "das Kind"}
VERBS = {"buys": "kauft", "sees": "sieht", "draws": "malt"}
OBJECTS = {"a house": "ein Haus", "a book": "ein Buch", "an apple": "einen Apfel", "a cat": "eine "
           "Katze"}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and both streams."""

    code: int
    stdout: str
    stderr: str


def mtkit_in(folder: Path, *arguments: str, text: bytes = b"") -> Outcome:
    """Runs `mtkit` in a folder."""
    done = subprocess.run(
        [*warm.command(), *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        check=False,
        # This checkout's mtkit, whether installed or not.
        env={**os.environ, "PYTHONPATH": str(Path(mtkit.__file__).parents[1])},
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def expect_fault(outcome: Outcome, *words: str, hint: str) -> None:
    """Asserts a user's fault whose message has these words."""
    assert outcome.code == 1, outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout == ""
    lines = outcome.stderr.splitlines()
    [first] = [index for index, line in enumerate(lines) if line.startswith("error: ")]
    [last] = [index for index, line in enumerate(lines) if line.startswith("hint: ")]
    assert first < last == len(lines) - 1
    message = "\n".join(lines[first:last])
    for word in words:
        assert word in message, message
    assert hint in lines[last], lines[last]


def write_project(folder: Path) -> None:
    pairs = [
        (f"{subject} {verb} {thing} .", f"{SUBJECTS[subject]} {VERBS[verb]} {OBJECTS[thing]} .")
        for subject, verb, thing in product(SUBJECTS, VERBS, OBJECTS)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "mtkit.toml").write_text(RECIPE)
    for name, part in (("train", pairs), ("dev", pairs[::7])):
        (folder / f"{name}.en").write_text("".join(f"{source}\n" for source, _ in part))
        (folder / f"{name}.de").write_text("".join(f"{target}\n" for _, target in part))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a recipe and its corpora; nothing prepared."""
    write_project(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `mtkit prepare` and `mtkit train` have run."""
    folder = tmp_path_factory.mktemp("trained")
    write_project(folder)
    for command in ("prepare", "train"):
        outcome = mtkit_in(folder, command)
        assert outcome.code == 0, outcome.stderr
    return folder


@pytest.fixture
def run_copy(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained folder, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def test_missing_file(project: Path) -> None:
    (project / "train.de").unlink()
    expect_fault(
        mtkit_in(project, "prepare"), f"{project}/train.de: no such file", hint="data_root"
    )
    (project / "train.de.gz").touch()
    expect_fault(mtkit_in(project, "prepare"), "train.de: no such file", hint="train.de.gz")


def test_unequal_line_counts(project: Path) -> None:
    text = (project / "train.de").read_text().splitlines(keepends=True)
    (project / "train.de").write_text("".join(text[:-3]))
    expect_fault(
        mtkit_in(project, "prepare"),
        "train.en has 36 lines",
        "train.de has 33",
        "train.en:34 is the first without a counterpart",
        hint="line",
    )


def test_empty_corpus(project: Path) -> None:
    (project / "train.en").write_text("")
    (project / "train.de").write_text("")
    expect_fault(mtkit_in(project, "prepare"), "train.en: empty file", hint="complete")


def test_corpus_of_blank_lines(project: Path) -> None:
    (project / "train.en").write_text("\n" * 5)
    (project / "train.de").write_text("\n" * 5)
    expect_fault(mtkit_in(project, "prepare"), "data.train", "no pair", hint="files")


def test_invalid_utf8(project: Path) -> None:
    text = (project / "train.de").read_bytes().split(b"\n")
    text[4] = "für".encode("latin-1")
    (project / "train.de").write_bytes(b"\n".join(text))
    expect_fault(mtkit_in(project, "prepare"), "train.de:5: ", "UTF-8", "0xfc", hint="iconv")


def test_windows_line_ends_make_the_same_data(trained: Path, project: Path) -> None:
    for path in [*project.glob("train.*"), *project.glob("dev.*")]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    outcome = mtkit_in(project, "prepare")
    assert outcome.code == 0, outcome.stderr
    prepared = Path("runs/tiny/data")
    files = [path.relative_to(trained) for path in (trained / prepared).rglob("*")]
    compared = [path for path in files if path.suffix in (".spm", ".arrow", ".npy", ".txt")]
    assert len({path.suffix for path in compared}) == 4
    for path in compared:
        assert (project / path).read_bytes() == (trained / path).read_bytes(), path


def test_typo_in_a_key(project: Path) -> None:
    text = RECIPE.replace("max_steps", "max_stps").replace("d_ff = 8", 'd_ff = "8"')
    (project / "mtkit.toml").write_text(text)
    expect_fault(
        mtkit_in(project, "train"),
        "mtkit.toml: training.max_stps: unknown key 'max_stps' (did you mean 'max_steps'?)",
        'mtkit.toml: model.d_ff: expected an integer, found "8"',
        hint="training has these keys: averaging, batch_tokens, ",
    )


def test_train_before_prepare(project: Path) -> None:
    expect_fault(
        mtkit_in(project, "train"), "runs/tiny/data", "no prepared data", hint="mtkit prepare"
    )


def test_train_on_data_of_another_recipe(trained: Path) -> None:
    expect_fault(
        mtkit_in(trained, "train", "--set", "tokenizer.vocab_size=50"),
        "runs/tiny/data",
        "another recipe",
        hint="mtkit prepare",
    )


def test_average_and_score_before_train(project: Path) -> None:
    expect_fault(mtkit_in(project, "average"), "runs/tiny/checkpoints", hint="mtkit train")
    expect_fault(mtkit_in(project, "score"), "no model", "runs/tiny/model", hint="mtkit train")


def test_translate_with_no_model(project: Path) -> None:
    expect_fault(
        mtkit_in(project, "translate", text=b"a book\n"),
        "runs/tiny/model",
        "no model",
        hint="mtkit train",
    )


def test_more_gpus_than_there_are(trained: Path) -> None:
    expect_fault(mtkit_in(trained, "train", "--gpus", "99"), "--gpus 99", "this machine", hint="--")


def test_truncated_checkpoint(run_copy: Path) -> None:
    checkpoints = sorted((run_copy / "runs/tiny/checkpoints").glob("step-*"))
    weights = checkpoints[-1] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    name = checkpoints[-1].name
    expect_fault(mtkit_in(run_copy, "average"), name, "damaged", hint=name)
    expect_fault(
        mtkit_in(run_copy, "translate", "--model", str(checkpoints[-1]), text=b"a book\n"),
        f"{name}/model.safetensors",
        "damaged",
        hint=f"take an earlier one: --model {checkpoints[-2]}",
    )
    # Training does without it, and says so.
    trained = mtkit_in(run_copy, "train", "--set", "training.max_steps=4")
    assert trained.code == 0, trained.stderr
    said = f"{name}: damaged checkpoint: model.safetensors has changed since it was saved"
    assert said in trained.stderr
    assert (checkpoints[-1].parent / f"damaged-{name}").is_dir()


def test_input_that_is_no_utf8(trained: Path) -> None:
    outcome = mtkit_in(trained, "translate", text=b"a book\na h\xe4user\na cat\n")
    # What comes before it is translated.
    assert outcome.stdout.count("\n") == 1
    assert outcome.code == 1
    assert "error: input line 2: byte 4 (0xe4) is invalid UTF-8" in outcome.stderr
    assert "hint: convert the input, for example: iconv" in outcome.stderr


def test_a_line_out_for_each_line_in(trained: Path) -> None:
    outcome = mtkit_in(trained, "translate", text="a book\n\n\r\na\u2028cat\r\nthe end".encode())
    assert outcome.code == 0, outcome.stderr
    lines = outcome.stdout.split("\n")
    assert (len(lines), lines[1], lines[2], lines[-1]) == (6, "", "", "")


def test_score_of_unequal_files(project: Path) -> None:
    expect_fault(
        mtkit_in(project, "score", "--hypothesis", "train.de", "--reference", "dev.de"),
        "train.de has 36 lines, but dev.de has 6",
        hint="line",
    )


def test_a_workspace_that_can_not_be_made(project: Path) -> None:
    (project / "taken").write_text("a file")
    outcome = mtkit_in(project, "prepare", "--workspace", "taken")
    assert outcome.code == 1
    assert "error: taken" in outcome.stderr
    assert "Traceback" not in outcome.stderr
