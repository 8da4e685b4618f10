"""COMET's command, played by a script with the same options and output."""

import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.evaluation.comet import check_comet
from mtkit.evaluation.evaluate import ReferenceText, evaluate
from mtkit.recipe import load_recipe
from mtkit.recipe.evaluation import Comet, Evaluation

from ... import warm

# Options and the shape of the JSON as unbabel-comet 2.2.7's `comet-score` has them; a sentence's
# score is its translation's length in characters, over 100.
COMMAND = """\
#!{python}
import argparse, json
parser = argparse.ArgumentParser()
for name in ("-s --sources", "-r --references", "--to_json", "--model", "--gpus"):
    parser.add_argument(*name.split(), required=True)
parser.add_argument("-t", "--translations", nargs="+", required=True)
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--only_system", action="store_true")
options = parser.parse_args()
if options.model == "absent":
    raise SystemExit("Model 'absent' not supported by COMET.")
found = {{}}
paths = options.sources, options.references
sources, references = (open(path).read().splitlines() for path in paths)
for path in options.translations:
    lines = open(path).read().splitlines()
    assert len(lines) == len(sources) == len(references)
    found[path] = [{{"src": s, "mt": t, "ref": r, "COMET": len(t) / 100}}
                   for s, t, r in zip(sources, lines, references)]
    print(path, "score: 0.5")
json.dump(found, open(options.to_json, "w"))
"""
TEXT = ReferenceText("test", [["ja", "nein"]], sources=["yes", "no"])


@pytest.fixture
def command(tmp_path: Path) -> str:
    path = tmp_path / "comet-score"
    path.write_text(COMMAND.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def settings(command: str, model: str = "some/model") -> Evaluation:
    return Evaluation(metrics=("ter",), comet=Comet(command=command, model=model))


def test_each_system_has_the_mean_of_its_sentences(command: str) -> None:
    systems = {"a": ["jaja", "ne\rin"], "b": ["j", "n"]}
    first, second = evaluate(systems, TEXT, settings(command)).systems
    assert [score.name for score in first.scores] == ["TER", "COMET"]
    # (4 + 5) / 2, and (1 + 1) / 2.
    assert first.scores[1].value == pytest.approx(4.5)
    assert second.scores[1].value == pytest.approx(1.0)
    assert "some/model" in first.scores[1].signature
    difference = second.scores[1].difference
    assert difference is not None
    assert difference.value == pytest.approx(-3.5)


def leaving(folder: Path, found: str) -> str:
    """Returns a command that leaves this text as its scores."""
    (folder / "found.json").write_text(found)
    path = folder / "comet-score"
    path.write_text(f"""#!/bin/sh
while [ "$1" != --to_json ]; do shift; done
cp "{folder}/found.json" "$2"
""")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("score", "told"),
    [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e999", "Infinity"),
        ("1e300", "1e+300"),
        ("null", "null"),
        ('"nan"', '"nan"'),
        ("true", "true"),
    ],
)
@pytest.mark.parametrize("system", ["first", "second"])
def test_a_score_that_is_no_finite_number_is_refused_with_its_sentence(
    tmp_path: Path, score: str, told: str, system: str
) -> None:
    sound = '[{"COMET": 0.5}, {"COMET": 0.25}]'
    broken = f'[{{"COMET": 0.5}}, {{"COMET": {score}}}]'
    tables = (broken, sound) if system == "first" else (sound, broken)
    command = leaving(tmp_path, f'{{"/a": {tables[0]}, "/b": {tables[1]}}}')
    systems = {"first": ["ja", "nein"], "second": ["ja", "nee"]}
    with pytest.raises(MtkitError) as caught:
        evaluate(systems, TEXT, settings(command))
    assert (
        f"the score of sentence 2 of {system} is {told}, not a valid score" in caught.value.message
    )
    assert "line 2 of the translations" in caught.value.hint


@pytest.mark.parametrize(
    "found",
    [
        '{"/a": [{"COMET": 0.5}]}',
        '{"/a": [{"COMET": 0.5}, {"COMET": 0.5}, {"COMET": 0.5}]}',
        '{"/a": [{"COMET": 0.5}, {"COMET": 0.5}], "/b": [{"COMET": 0.5}, {"COMET": 0.5}]}',
        "{}",
    ],
)
def test_scores_that_do_not_pair_with_the_sentences_are_refused(tmp_path: Path, found: str) -> None:
    with pytest.raises(MtkitError, match="didn't write scores"):
        evaluate({"only": ["ja", "nein"]}, TEXT, settings(leaving(tmp_path, found)))


def test_a_broken_score_ends_the_command_without_output(tmp_path: Path) -> None:
    for name, text in (("out.de", "ja\nnein\n"), ("ref.de", "ja\nnein\n"), ("src.en", "y\nn\n")):
        (tmp_path / name).write_text(text)
    command = leaving(tmp_path, '{"/a": [{"COMET": NaN}, {"COMET": 0.5}]}')
    report = tmp_path / "report.json"
    ended = subprocess.run(
        [
            *(*warm.command(), "score", "--json", "--report", str(report)),
            *("--hypothesis", "out.de", "--reference", "ref.de", "--source", "src.en"),
            *("--set", f"evaluation.comet.command={command}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the score of sentence 1 of out.de is NaN" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not report.exists()


def test_what_stands_in_its_way_is_said(command: str, tmp_path: Path) -> None:
    systems = {"a": ["ja", "nein"]}
    without_sources = ReferenceText("test", TEXT.references)
    with pytest.raises(MtkitError, match="needs the source text") as caught:
        evaluate(systems, without_sources, settings(command))
    assert "--source FILE" in caught.value.hint
    with pytest.raises(MtkitError, match="can't run") as caught:
        evaluate(systems, TEXT, settings(str(tmp_path / "nowhere")))
    assert "pip install unbabel-comet" in caught.value.hint
    broken = tmp_path / "broken"
    script = """#!/bin/sh
while [ "$1" != --to_json ]; do shift; done
echo '{"a": [{"src": "x"}]}' > "$2"
"""
    broken.write_text(script)
    broken.chmod(0o755)
    with pytest.raises(MtkitError, match="didn't write scores"):
        evaluate(systems, TEXT, settings(str(broken)))
    with pytest.raises(MtkitError, match="absent failed:\nModel 'absent' not supported") as caught:
        evaluate(systems, TEXT, settings(command, "absent"))
    assert "model.ckpt" in caught.value.hint


RECIPE = """
name = "w17"
[data]
source_language = "en"
target_language = "de"
train = [{ builtin = "phrasebook" }]
dev = { builtin = "phrasebook" }
[evaluation.comet]
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that returns COMET's settings from a recipe file and what is typed beside it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.toml"

    def read(lines: str, *typed: str) -> Comet:
        path.write_text(RECIPE + lines)
        comet = load_recipe(path, typed).evaluation.comet
        assert comet is not None
        return comet

    return read


@pytest.mark.parametrize("named", ["{absolute}", "./comet-score", "w17/helper", "helper", "sh"])
def test_a_program_that_a_recipe_names_is_not_run(load, command, tmp_path, monkeypatch, named):
    name = named.format(absolute=command)
    mark = tmp_path / "mark"
    for path in (tmp_path / "helper", tmp_path / "w17" / "helper"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {mark}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    settings = Evaluation(comet=load(f'command = "{name}"'))
    with pytest.raises(MtkitError, match=r"evaluation\.comet\.command: the recipe names") as caught:
        evaluate({"a": ["ja", "nein"]}, TEXT, settings)
    assert (
        caught.value.hint
        == f"if you trust it, give it on the command line: --set evaluation.comet.command={name}"
    )
    assert not mark.exists()


@pytest.mark.parametrize(
    "key", ["evaluation.comet.command={}", 'evaluation.comet={{command="{}"}}']
)
def test_a_program_that_is_typed_is_run(load, command, key):
    comet = load('command = "w17/helper"', key.format(command))
    settings = Evaluation(metrics=("ter",), comet=comet)
    [system] = evaluate({"a": ["jaja", "nein"]}, TEXT, settings).systems
    # Both translations have four characters.
    assert system.scores[1].value == pytest.approx(4.0)
    # Another key that is typed doesn't vouch for the program.
    with pytest.raises(MtkitError, match="the recipe names w17/helper"):
        check_comet(load('command = "w17/helper"', "evaluation.comet.gpus=1"), ())
    # Nor does one that was typed before the whole section was.
    check_comet(
        load('command = "w17/helper"', "~evaluation.comet.command", key.format(command)), ()
    )


def test_its_own_command_is_looked_for_in_absolute_places_of_path(load, command, monkeypatch):
    for line in ("gpus = 0", 'command = "comet-score"'):
        for path in ("", ".", "./"):
            monkeypatch.setenv("PATH", path)
            with pytest.raises(MtkitError, match="can't run comet-score"):
                check_comet(load(line), ())
        monkeypatch.setenv("PATH", str(Path(command).parent))
        check_comet(load(line), ())


@pytest.mark.parametrize(
    "model",
    ["x.ckpt", "./model.ckpt", "/tmp/model.ckpt", "Unbabel/x.ckpt", "Unbabel/../x", "other/model",
     "-h", "--model", ""],
)  # fmt: skip
def test_a_checkpoint_that_a_recipe_names_is_not_opened(load, command, monkeypatch, model):
    monkeypatch.setenv("PATH", str(Path(command).parent))
    with pytest.raises(MtkitError, match=r"evaluation\.comet\.model: the recipe names"):
        check_comet(load(f'model = "{model}"'), ())
    check_comet(load(f'model = "{model}"', "evaluation.comet.model=other/model"), ())
    check_comet(load("", f'evaluation.comet={{model="{model}"}}'), ())


@pytest.mark.parametrize("model", ["Unbabel/XCOMET-XL", "Unbabel/wmt22-comet-da", "wmt20-comet-da"])
def test_models_of_its_makers_may_stand_in_a_recipe(load, command, monkeypatch, model):
    monkeypatch.setenv("PATH", str(Path(command).parent))
    check_comet(load(f'model = "{model}"'), ())
