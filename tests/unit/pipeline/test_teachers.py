"""Translators of corpora: which translation is taken, which are dropped, who may be asked."""

import json
import math
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import sentence_chrf

from mtkit.checks.flag import Flag
from mtkit.data.preparation.held_out import check_unseen
from mtkit.data.preparation.teachers import TeacherLine
from mtkit.data.prepare import prepare
from mtkit.errors import MtkitError
from mtkit.inference.request import LineError
from mtkit.inference.translation import Hypothesis, Translation
from mtkit.inference.translator import Translator
from mtkit.model.config import read_settings
from mtkit.pipeline.line_teacher import LineTeacher
from mtkit.pipeline.teachers import ModelTeachers
from mtkit.recipe import load_recipe
from mtkit.recipe.synthesis import Synthesis
from mtkit.workspace import Workspace


def candidate(text: str, *log_probabilities: float) -> Hypothesis:
    return Hypothesis(
        (1,) * len(log_probabilities),
        sum(log_probabilities),
        0.0,
        is_finished=True,
        token_log_probabilities=log_probabilities,
        text=text,
    )


class Listed:
    """Answers from a list of translations, and scores each pair by its texts' lengths."""

    summary = ""

    def __init__(self, answers: Sequence[Translation], per_character: float = 0.0) -> None:
        self._answers, self._per_character = answers, per_character

    def search(self, requests, *, warns: bool) -> Sequence[Translation]:
        del warns
        assert len(requests) == len(self._answers)
        return self._answers

    def score(self, pairs, *, first_line: int) -> list[Translation]:
        for line, pair in enumerate(pairs, first_line):
            if len(pair.text) > 100:
                raise LineError(line, "too long")
        # Two tokens each.
        return [
            Translation((candidate(pair.prefix, *[self._per_character * len(pair.text)] * 2),))
            for pair in pairs
        ]


LINES = [TeacherLine(1, "ein Haus", "a small house"), TeacherLine(2, "zwei", "")]


def test_by_default_the_most_probable_translation_is_taken() -> None:
    answers = [
        Translation((candidate("a house", -0.25, -0.75), candidate("a small house", -3.0))),
        Translation((candidate("two", -1.0),)),
    ]
    found = LineTeacher(Synthesis(), Listed(answers), None)(LINES)
    assert found.texts == ["a house", "two"]
    assert found.reasons == ["", ""]
    assert np.isnan(found.scores).all()
    np.testing.assert_array_equal(found.probabilities, [-0.5, -1.0])


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_one_closest_to_the_reference_is_taken_if_asked(metric) -> None:
    answers = [
        Translation((candidate("a house", -1.0), candidate("a small house", -3.0))),
        Translation((candidate("two", -1.0), candidate("2", -2.0))),
    ]
    found = LineTeacher(Synthesis(closest_to_reference=metric), Listed(answers), None)(LINES)
    # A line without a reference keeps the most probable one.
    assert found.texts == ["a small house", "two"]


def test_the_one_that_is_taken_has_its_own_flags_and_probability() -> None:
    loops = (Flag("looping", 9, 3, "it loops"),)
    first = candidate("a a a a", -0.1)
    answers = [
        Translation((first, candidate("a small house", -3.0)), flags=loops),
        Translation((candidate("two", -1.0), candidate("2", -2.0))),
    ]
    synthesis = Synthesis(closest_to_reference="chrf", drop_flagged=True)
    found = LineTeacher(synthesis, Listed(answers), None)(LINES)
    assert found.texts == ["a small house", "two"]
    assert found.reasons == ["", ""]
    np.testing.assert_array_equal(found.probabilities, [-3.0, -1.0])


def test_dual_cross_entropy_is_that_of_the_paper() -> None:
    answers = [Translation((candidate("a house", -1.0),)), Translation((candidate("two", -1.0),))]
    synthesis = Synthesis(checked_by="r", keep=0.5)
    found = LineTeacher(synthesis, Listed(answers, -0.1), Listed([], -0.3))(LINES)
    # arXiv 1809.00197: H_A of "ein Haus" is 0.8, H_B of "a house" 2.1; of "zwei" 0.4, "two" 0.9.
    expected = [math.exp(-(1.3 + 2.9 / 2)), math.exp(-(0.5 + 1.3 / 2))]
    np.testing.assert_allclose(found.scores, expected, rtol=1e-12)


@pytest.mark.parametrize("long", ["source", "target"])
def test_a_line_that_a_model_cant_score_is_dropped_alone(long: str) -> None:
    text = "a " * 100
    lines = [TeacherLine(1, text if long == "source" else "x", text), *LINES]
    answers = [
        Translation((candidate("y", -1.0), candidate(text if long == "target" else "z", -1.0))),
        *[Translation((candidate("a house", -1.0),))] * 2,
    ]
    synthesis = Synthesis(checked_by="r", keep=0.5, closest_to_reference="chrf", drop_flagged=True)
    found = LineTeacher(synthesis, Listed(answers, -0.1), Listed([], -0.3))(lines)
    assert found.reasons == ["too long to score", "", ""]
    assert np.isnan(found.scores).tolist() == [True, False, False]


def test_what_comes_back_too_different_is_dropped() -> None:
    answers = [Translation((candidate("a house", -1.0),)), Translation((candidate("two", -1.0),))]
    back = [Translation((candidate("ein Hau", -1.0),)), Translation((candidate("drei", -1.0),))]
    close = sentence_chrf("ein Hau", ["ein Haus"]).score
    assert sentence_chrf("drei", ["zwei"]).score < 50 < close
    synthesis = Synthesis(checked_by="r", min_round_trip=50)
    found = LineTeacher(synthesis, Listed(answers), Listed(back))(LINES)
    assert found.reasons == ["", "round_trip"]


def test_flags_and_bad_answers_are_reasons() -> None:
    flags = (Flag("looping", 9, 3, "it loops"),)
    bad = (Flag("bad answer", 1, 0, "no answer"),)
    answers = [
        Translation((candidate("a a a a", -1.0),), flags=flags),
        Translation((candidate("zwei", -1.0),), flags=bad),
    ]
    for drops, expected in ((True, ["looping", "bad answer"]), (False, ["", "bad answer"])):
        found = LineTeacher(Synthesis(drop_flagged=drops), Listed(answers), None)(LINES)
        assert found.reasons == expected
    empty = [Translation((candidate(" "),)), Translation((candidate("two", -1.0),))]
    found = LineTeacher(Synthesis(), Listed(empty), None)(LINES)
    assert found.reasons == ["no translation", ""]
    assert math.isnan(found.probabilities[0])


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for language in ("en", "de"):
        for name, count in (("a", 60), ("d", 5), ("m", 5), ("t", 20)):
            lines = "".join(f"{language} line {name} {i} is here\n" for i in range(count))
            (tmp_path / f"{name}.{language}").write_text(lines)
    return tmp_path


RECIPE = """\
name = "x"
[data]
source_language = "en"
target_language = "de"
dev = { source = "d.en", target = "d.de" }
train = [
    { source = "a.en", target = "a.de" },
    { target = "m.de", translated_by = "TEACHER" },
]
cleaning.numbers.enabled = false
[tokenizer]
vocab_size = 50
[[evaluation.test_sets]]
name = "test"
source = "t.en"
target = "t.de"
"""


def load(folder: Path, teacher: str, *overrides: str):
    (folder / "x.toml").write_text(RECIPE.replace("TEACHER", teacher))
    recipe = load_recipe(folder / "x.toml", overrides)
    return ModelTeachers(recipe, folder / "runs" / "x"), recipe.data.train[1]


LLM = """\
url = "http://host/v1"
model = "m"
source_languages = ["de", "en"]
target_languages = ["en", "de"]
"""


_SERVER = "http://127.0.0.1:9"
"""Nothing listens there."""


@pytest.mark.parametrize("teacher", [_SERVER, "llm.toml"])
def test_a_recipe_alone_sends_nothing(corpora: Path, teacher: str) -> None:
    (corpora / "llm.toml").write_text(LLM)
    teachers, corpus = load(corpora, teacher)
    with pytest.raises(MtkitError, match="which only the recipe names") as no:
        teachers.check(corpus)
    assert "--set data.train.1.translated_by=" in no.value.hint
    teachers, corpus = load(corpora, "a", f"data.train.1.translated_by={teacher}")
    # A server is asked, to see whether it answers.
    with pytest.raises(MtkitError, match=_SERVER) if teacher == _SERVER else nullcontext():
        teachers.check(corpus)


def test_what_checks_is_typed_on_its_own(corpora: Path) -> None:
    (corpora / "llm.toml").write_text(LLM)
    given = f"synthesis = {{ checked_by = '{_SERVER}', min_round_trip = 5 }}"
    text = RECIPE.replace('"TEACHER" }', f"'t', {given} }}")
    (corpora / "x.toml").write_text(text)
    typed = "data.train.1.translated_by=llm.toml"
    recipe = load_recipe(corpora / "x.toml", [typed])
    with pytest.raises(
        MtkitError, match=r"synthesis\.checked_by: your text would be sent to http://127"
    ):
        ModelTeachers(recipe, corpora / "runs" / "x").check(recipe.data.train[1])
    both = [typed, f"data.train.1.synthesis.checked_by={_SERVER}"]
    recipe = load_recipe(corpora / "x.toml", both)
    with pytest.raises(MtkitError, match=f"{_SERVER}: .*refused"):
        ModelTeachers(recipe, corpora / "runs" / "x").check(recipe.data.train[1])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("beam_size", "5"),
        ("sampling", "{}"),
        ("drop_flagged", "true"),
        ("keep", "0.5"),
    ],
)
def test_a_translator_elsewhere_has_settings_of_its_own(
    corpora: Path, key: str, value: str
) -> None:
    more = ["data.train.1.synthesis.checked_by=pairs"] if key == "keep" else []
    teachers, corpus = load(
        corpora,
        "a",
        "data.train.1.translated_by=http://host",
        f"data.train.1.synthesis.{key}={value}",
        *more,
    )
    with pytest.raises(MtkitError, match=rf"runs elsewhere .*synthesis\.{key} has no effect"):
        teachers.check(corpus)


def test_a_missing_model_is_named(corpora: Path) -> None:
    teachers, corpus = load(corpora, "../nothing/model")
    with pytest.raises(MtkitError, match=r"data\.train\.1\.translated_by: .*/model: no such") as no:
        teachers.check(corpus)
    assert "data.data_root" in no.value.hint
    assert not teachers.are_trained_first(corpus)
    teachers, corpus = load(corpora, "revers")
    with pytest.raises(MtkitError, match="did you mean 'reverse'"):
        teachers.check(corpus)
    teachers, corpus = load(corpora, "a.de")
    with pytest.raises(MtkitError, match=r"a\.de: is a file, not a model folder"):
        teachers.check(corpus)
    teachers, corpus = load(corpora, "reverse")
    with pytest.raises(MtkitError, match=r"isn't trained yet \(.*runs/x-reverse/model\)") as no:
        teachers.check(corpus)
    assert "`mtkit run` trains it first" in no.value.hint
    assert teachers.are_trained_first(corpus)
    # What `mtkit run` trains is left out of the check before that.
    teachers.check(corpus, are_trained_first=True)


def test_a_model_of_other_languages_is_refused(corpora: Path, tiny_run) -> None:
    run = tiny_run("training.max_steps=2", name="forward")
    assert run.train()
    teachers, corpus = load(corpora, str(run.workspace.model))
    with pytest.raises(MtkitError, match="doesn't translate de into en") as fault:
        teachers.check(corpus)
    assert "translates backwards" in fault.value.hint


def test_a_recipe_of_other_languages_is_refused_before_it_is_trained(corpora: Path) -> None:
    forward = RECIPE.replace('name = "x"', 'name = "y"').replace(
        '    { target = "m.de", translated_by = "TEACHER" },\n', ""
    )
    (corpora / "y.toml").write_text(forward)
    teachers, corpus = load(corpora, "y.toml")
    with pytest.raises(MtkitError, match=r"y\.toml doesn't translate de into en") as fault:
        teachers.check(corpus, are_trained_first=True)
    assert "translates backwards" in fault.value.hint
    backward = forward.replace('_language = "en"', '_language = "?"')
    backward = backward.replace('_language = "de"', '_language = "en"').replace('"?"', '"de"')
    (corpora / "y.toml").write_text(backward)
    teachers.check(corpus, are_trained_first=True)
    model = '[training]\nstart_from = { model = "m" }\n'
    (corpora / "y.toml").write_text(forward + model)
    # A public model that it starts from may know more languages.
    teachers.check(corpus, are_trained_first=True)


def test_a_tag_may_ask_for_another_language() -> None:
    flags = (Flag("wrong language", 1, 0, "it is English"),)
    answers = [Translation((candidate("a house", -1.0),), flags=flags)]
    synthesis = Synthesis(drop_flagged=True)
    for tag, reason in (("", "wrong language"), ("<en>", "")):
        found = LineTeacher(synthesis, Listed(answers), None, tag)(LINES[:1])
        assert found.reasons == [reason]


def test_a_tag_of_a_language_is_put_once(corpora: Path, tiny_run) -> None:
    tagged = "data.train.0.tag='>>deu<<'"
    run = tiny_run("training.max_steps=2", tagged, name="tagged")
    prepare(run.recipe, run.workspace)
    assert run.train()
    teachers, corpus = load(
        corpora,
        str(run.workspace.model),
        *("~data.train.1.target", "data.train.1.source=m.de", "data.train.1.tag='>>deu<<'"),
    )
    found = teachers.open(corpus)([TeacherLine(1, "ein Haus", "")])
    settings = read_settings(run.workspace.model).model_copy(update={"beam_size": 4})
    alone = Translator([run.workspace.model], settings=settings, warns=False)
    once, twice = alone.search([">>deu<< ein Haus", ">>deu<< >>deu<< ein Haus"])
    assert found.probabilities[0] == once.candidates[0].mean_log_probability
    assert found.probabilities[0] != twice.candidates[0].mean_log_probability


def test_a_server_that_checks_leaves_the_translator_its_settings(corpora: Path) -> None:
    teachers, corpus = load(
        corpora,
        "reverse",
        f"data.train.1.synthesis.checked_by={_SERVER}",
        "data.train.1.synthesis.min_round_trip=5",
        "data.train.1.synthesis.drop_flagged=true",
        "data.train.1.synthesis.sampling={}",
    )
    with pytest.raises(MtkitError, match=f"{_SERVER}: .*refused"):
        teachers.check(corpus, are_trained_first=True)


def test_a_models_own_settings_count(corpora: Path, tiny_run) -> None:
    run = tiny_run("training.max_steps=2", name="forward")
    assert run.train()
    teachers, corpus = load(corpora, str(run.workspace.model))
    before = teachers.describe(corpus)["digests"]
    file = run.workspace.model / "inference.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "max_extra_tokens": 40}))
    assert teachers.describe(corpus)["digests"] != before
    # So does a precision that the machine doesn't choose.
    file.write_text(json.dumps({**settings, "precision": "int8"}))
    assert teachers.describe(corpus)["digests"] != before
    # Speed doesn't.
    file.write_text(json.dumps({**settings, "batch_tokens": 99}))
    assert teachers.describe(corpus)["digests"] == before


def test_a_run_with_checkpoints_keeps_its_translations(corpora: Path) -> None:
    teachers, corpus = load(corpora, "reverse")
    workspace = Workspace(corpora / "runs" / "x")
    assert not teachers.is_ready(corpus)
    recorded = {"names": ["reverse"], "digests": ["1"], "licences": {}}
    workspace.record("prepare", {"teachers": {"m": recorded}})
    # Its model is gone, and it may have another name.
    renamed, other = load(corpora, "reverse", "data.train.1.name=other")
    assert renamed.describe(other) == recorded
    assert teachers.is_ready(corpus)
    assert teachers.describe(corpus) == recorded
    assert not teachers.keeps_translations(corpus)
    (workspace.checkpoints / "step-1").mkdir(parents=True)
    assert teachers.keeps_translations(corpus)
    teachers.check(corpus)


def test_a_run_that_keeps_its_translations_sends_nothing_either(corpora: Path) -> None:
    """If its text has changed, lines would be translated again."""
    teachers, corpus = load(corpora, "http://host:5000")
    workspace = Workspace(corpora / "runs" / "x")
    workspace.record("prepare", {"teachers": {"m": {"names": [], "digests": [], "licences": {}}}})
    (workspace.checkpoints / "step-1").mkdir(parents=True)
    assert teachers.keeps_translations(corpus)
    with pytest.raises(MtkitError, match="which only the recipe names"):
        teachers.open(corpus)


def test_a_translator_that_has_seen_the_test_set_is_refused(corpora: Path) -> None:
    _, _corpus = load(corpora, "reverse")
    recipe = load_recipe(corpora / "x.toml")
    seen = RECIPE.replace('    { target = "m.de", translated_by = "TEACHER" },\n', "")
    seen = seen.replace('"a.en", target = "a.de"', '"b.en", target = "b.de"')
    (corpora / "seen.toml").write_text(seen[: seen.index("[[evaluation")])
    for language in ("en", "de"):
        text = (corpora / f"a.{language}").read_text() + (corpora / f"t.{language}").read_text()
        (corpora / f"b.{language}").write_text(text)
    workspace = Workspace(corpora / "seen")
    prepare(load_recipe(corpora / "seen.toml"), workspace)
    with pytest.raises(MtkitError, match="20 of its 20 pairs are in its training text"):
        check_unseen(workspace, recipe.data, recipe.evaluation.test_sets)
    # One that was held out from it is fine.
    check_unseen(workspace, recipe.data, ())
    prepared = Workspace(corpora / "unseen")
    prepare(load_recipe(corpora / "seen.toml", ["data.train.0.max_pairs=60"]), prepared)
    check_unseen(prepared, recipe.data, recipe.evaluation.test_sets)
    # The manifest says so, too.
    listed = json.loads(prepared.manifest_file.read_text())
    size, time = (corpora / "t.en").stat().st_size, (corpora / "t.en").stat().st_mtime_ns
    listed["prepare"]["inputs"].append({"name": "t.en", "size": size, "modified_ns": time})
    prepared.manifest_file.write_text(json.dumps(listed))
    for _ in range(2):
        with pytest.raises(MtkitError, match="its manifest lists the file"):
            check_unseen(prepared, recipe.data, recipe.evaluation.test_sets)
        # It does so without the data, too.
        shutil.rmtree(prepared.data, ignore_errors=True)
    for text in ("[]", '{"prepare": {"inputs": 5}}'):
        prepared.manifest_file.write_text(text)
        check_unseen(prepared, recipe.data, recipe.evaluation.test_sets)
