"""`data.word_aligner`: what `prepare` learned goes with the model, and says the alignments."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from mtkit import Translator
from mtkit.data import phrasebook
from mtkit.data.prepare import prepare
from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.model.alignment_head import WORD_ALIGNER_FILE
from mtkit.model.digest import digest_model
from mtkit.training.averaging.average import average
from mtkit.training.metrics_log import MetricsLog

from .. import warm

ON = "data.word_aligner=true"


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "draw", lambda _: None)
        yield


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {}


@pytest.fixture
def model(tiny_run, _made: dict[str, Path], tmp_path_factory) -> Path:
    """The folder of a model that was trained for two updates, with an aligner."""
    if "model" not in _made:
        run = tiny_run(ON, "training.max_steps=2", "training.checkpoint_every=2")
        prepare(run.recipe, run.workspace)
        assert run.train()
        kept = tmp_path_factory.mktemp("kept") / "model"
        run.workspace.model.rename(kept)
        _made["model"] = kept
    return _made["model"]


def align(folder: Path, pairs: list[tuple[str, str]], **settings: object) -> list[str]:
    translator = Translator(folder)
    settings = {"alignments": True, **settings}
    translator = Translator(folder, settings=translator.settings.model_copy(update=settings))
    return [
        each.candidates[0].alignment.as_pharaoh(*pair)
        for pair, each in zip(pairs, translator.score(pairs), strict=True)
    ]


def test_links_are_the_aligners_and_no_longer_attentions(model: Path, tmp_path: Path) -> None:
    # The generator's words stand for each other one by one here.
    pairs = [("The man sleeps.", "Der Mann schläft."), ("The woman sings.", "Die Frau singt.")]
    assert align(model, pairs) == ["0-0 1-1 2-2", "0-0 1-1 2-2"]
    # Two updates taught the network nothing of the kind.
    other = tmp_path / "without"
    other.mkdir()
    for file in model.iterdir():
        if file.name != WORD_ALIGNER_FILE:
            (other / file.name).write_bytes(file.read_bytes())
    assert align(other, pairs) != ["0-0 1-1 2-2", "0-0 1-1 2-2"]
    assert digest_model(other) != digest_model(model)


def test_punctuation_beside_a_word_links_it_to_nothing(model: Path) -> None:
    # The full stop stands behind another word here; by itself it is a word.
    assert align(model, [("The man sleeps.", "Schläft der Mann.")]) == ["0-1 1-2 2-0"]
    assert align(model, [("The man sleeps .", "Der Mann schläft .")]) == ["0-0 1-1 2-2 3-3"]


def test_translations_have_links_and_are_the_same_as_without(model: Path) -> None:
    translator = Translator(model)
    assert translator.aligns
    lines = [source for source, _ in phrasebook.generate_pairs("dev", 5)]
    linked = translator.settings.model_copy(update={"alignments": True})
    plain = translator.search([Request(line) for line in lines])
    found = translator.search([Request(line, settings=linked) for line in lines])
    for before, after, line in zip(plain, found, lines, strict=True):
        assert after.candidates[0].text == before.candidates[0].text
        assert after.candidates[0].log_probability == before.candidates[0].log_probability
        alignment = after.candidates[0].alignment
        words = [line[start:end] for start, end in alignment.source_words]
        assert words == line.split()


@pytest.mark.parametrize("fault", ["cut", "text", "key", "shape", "nan", "order"])
def test_a_damaged_file_is_named(model: Path, tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    path = folder / WORD_ALIGNER_FILE
    arrays = load_file(path)
    match fault:
        case "cut":
            path.write_bytes(path.read_bytes()[:-10])
        case "text":
            path.write_bytes(b"words\n")
        case "key":
            del arrays["backward_jumps"]
        case "shape":
            arrays["forward_by_pair"] = arrays["forward_by_pair"][:-1]
        case "nan":
            arrays["forward_by_none"] *= float("nan")
        case "order":
            arrays["keys"] = arrays["keys"][::-1].copy()
    if fault not in ("cut", "text"):
        save_file(arrays, path)
    with pytest.raises(MtkitError, match=f"{WORD_ALIGNER_FILE}: damaged") as error:
        align(folder, [("The man sleeps.", "Der Mann schläft.")])
    assert "mtkit average" in error.value.hint
    # Whoever asks for no links isn't disturbed.
    line = "The man sleeps."
    assert Translator(folder).translate(line) == Translator(model).translate(line)


def test_it_is_kept_by_average_and_left_out_when_switched_off(tiny_run) -> None:
    run = tiny_run(ON, "training.max_steps=2", "training.checkpoint_every=1")
    prepare(run.recipe, run.workspace)
    assert run.train()
    average(run.recipe, run.workspace, choose="last", num_checkpoints=2)
    assert (run.workspace.model / WORD_ALIGNER_FILE).is_file()
    tokens = json.loads((run.workspace.data / "prepared.json").read_text())["digest"]
    off = tiny_run("training.max_steps=2", "training.checkpoint_every=1")
    prepare(off.recipe, off.workspace)
    # The same tokens: its training goes on.
    assert json.loads((off.workspace.data / "prepared.json").read_text())["digest"] == tokens
    assert not (off.workspace.data / "aligner").exists()
    average(off.recipe, off.workspace, choose="last", num_checkpoints=2)
    assert not (off.workspace.model / WORD_ALIGNER_FILE).exists()


def test_text_in_one_language_has_no_pairs_to_learn_from(tiny_run_of) -> None:
    with pytest.raises(MtkitError, match="word_aligner learns from pairs"):
        tiny_run_of("causal-lm", ON)


def run_align(folder: Path, lines: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*warm.command(), "align", "--model", str(folder), *options]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=False)


def test_mtkit_align_reads_given_translations_together(model: Path) -> None:
    # No one knows these words. Each stands beside another's translation once, and elsewhere not.
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    pairs = [
        (f"q{words[index]} q{words[index - step]}", f"z{index - step} z{index}")
        for step in (1, 2, 3)
        for index in range(step, 8)
    ]
    given = "".join(f"{source}\t{target}\n" for source, target in [*pairs, ("", "")])
    together = run_align(model, given)
    assert together.returncode == 0, together.stderr
    assert together.stdout == "0-1 1-0\n" * len(pairs) + "\n"
    apart = run_align(model, given, "--apart")
    assert apart.stdout == "".join(f"{links}\n" for links in [*align(model, pairs), ""])
    assert apart.stdout != together.stdout


def test_mtkit_align_counts_words_as_other_tools_do(model: Path) -> None:
    # Two of the words are parted by a no-break space: 3 words for fast_align, not 4.
    lines = "The old\u00a0man sleeps.\tDer alte Mann schläft.\n"
    found = run_align(model, lines).stdout.split()
    assert {"0-0", "2-3"} <= set(found) <= {"0-0", "1-1", "1-2", "2-3"}
    (as_json,) = run_align(model, lines, "--json").stdout.splitlines()
    alignment = json.loads(as_json)["alignment"]
    assert alignment["pharaoh"].split() == found
    # mtkit's own words stay.
    assert [3, 3] in alignment["links"]
    assert alignment["source_words"] == [[0, 3], [4, 7], [8, 11], [12, 19]]


@pytest.mark.parametrize("options", [(), ("--apart",)])
def test_mtkit_align_names_pairs_that_are_too_long(model: Path, options: tuple[str, ...]) -> None:
    long, lines = "The man sleeps " * 200, "The man sleeps.\tDer Mann schläft.\n"
    found = run_align(model, f"{lines}{long}\tDer Mann\n{lines}Der\t{long}\n", *options)
    assert found.stdout.splitlines() == ["0-0 1-1 2-2", "", "0-0 1-1 2-2", ""]
    assert [line.partition(": ")[2] for line in found.stderr.splitlines()] == [
        f"input line {number}: more than 400 words on a side, with punctuation: no links"
        for number in (2, 4)
    ]


def test_translations_that_are_too_long_to_align_have_a_warning(model: Path) -> None:
    translator = Translator(model)
    settings = translator.settings.model_copy(update={"alignments": True})
    translator = Translator(model, settings=settings)
    found = translator.score([("The man", "Der Mann"), ("The man", "Mann " * 401)])
    assert [[each.kind for each in one.warnings] for one in found] == [[], ["too long to align"]]
    assert "input line 2: more than 400 words" in found[1].warnings[0].text


def test_mtkit_align_prints_objects_and_names_what_is_missing(model: Path, tmp_path: Path) -> None:
    line = json.dumps({"source": "The man sleeps.", "target": "Der Mann schläft.", "id": 7})
    [(_, found)] = json.loads(
        run_align(model, line, "--input", "jsonl", "--json").stdout, object_pairs_hook=list
    )[1:]
    assert dict(found)["pharaoh"] == "0-0 1-1 2-2"
    assert dict(found)["target_words"] == [[0, 3], [4, 8], [9, 17]]
    without = tmp_path / "without"
    without.mkdir()
    for file in model.iterdir():
        if file.name != WORD_ALIGNER_FILE:
            (without / file.name).write_bytes(file.read_bytes())
    refused = run_align(without, "a\tb\n")
    assert refused.returncode == 1
    assert "no word aligner here" in refused.stderr
    unpaired = run_align(model, "a\n")
    assert (unpaired.returncode, unpaired.stdout) == (1, "")
    ignored = run_align(model, "a\tb\n", "--set", "name=x")
    assert (ignored.returncode, ignored.stdout) == (2, "")
    nothing = run_align(model, "")
    assert (nothing.returncode, nothing.stdout) == (0, "")
