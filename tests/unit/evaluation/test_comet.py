"""COMET's command, played by a script with the same options and output."""

import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import ReferenceText, evaluate
from mtkit.recipe.evaluation import Comet, Evaluation

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
    assert f"the score of sentence 2 of {system} is {told}, where" in caught.value.message
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
    with pytest.raises(MtkitError, match="left no scores"):
        evaluate({"only": ["ja", "nein"]}, TEXT, settings(leaving(tmp_path, found)))


def test_a_broken_score_ends_the_command_without_output(tmp_path: Path) -> None:
    for name, text in (("out.de", "ja\nnein\n"), ("ref.de", "ja\nnein\n"), ("src.en", "y\nn\n")):
        (tmp_path / name).write_text(text)
    command = leaving(tmp_path, '{"/a": [{"COMET": NaN}, {"COMET": 0.5}]}')
    report = tmp_path / "report.json"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "mtkit", "score", "--json", "--report", str(report)),
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
    with pytest.raises(MtkitError, match="looks at the source") as caught:
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
    with pytest.raises(MtkitError, match="left no scores"):
        evaluate(systems, TEXT, settings(str(broken)))
    with pytest.raises(MtkitError, match="absent failed:\nModel 'absent' not supported") as caught:
        evaluate(systems, TEXT, settings(command, "absent"))
    assert "model.ckpt" in caught.value.hint
