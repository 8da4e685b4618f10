"""A check fails where languages are surely wrong, and `prepare` warns."""

import json
from pathlib import Path

import pytest

from mtkit.data.check import check_recipe_data
from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepare import prepare
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.recipe import load_recipe
from mtkit.workspace import Workspace

RECIPE = """\
name = "small"
[data]
source_language = "{}"
target_language = "{}"
[[data.train]]
{}
[data.dev]
source = "train.1"
target = "train.2"
[data.cleaning.overlap]
enabled = false
[tokenizer]
vocab_size = 300
"""
FILES = 'source = "train.1"\ntarget = "train.2"'
ENGLISH_GERMAN = list(generate_pairs("train", 150))
GERMAN_ENGLISH = [(german, english) for english, german in ENGLISH_GERMAN]
PO = 'msgid ""\nmsgstr "Language: {}\\n"\n\n'
MESSAGE = 'msgid "{}"\nmsgstr "{}"\n\n'
XLIFF_1 = '<xliff version="1.2"><file source-language="{}" target-language="{}"><body>'
XLIFF_2 = '<xliff version="2.0" srcLang="{}" trgLang="{}"><file id="f"><unit id="u">'
UNIT = "<trans-unit><source>{}</source><target>{}</target></trans-unit>"
SEGMENT = "<segment><source>{}</source><target>{}</target></segment>"


@pytest.fixture
def load(tmp_path: Path):
    """A function that writes pairs, and returns the recipe of a corpus."""

    def write(corpus: str, pairs, *languages: str):
        for side, lines in enumerate(zip(*pairs, strict=True), 1):
            (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
        rows = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (tmp_path / "train.tsv").write_text(rows)
        (tmp_path / "mtkit.toml").write_text(RECIPE.format(*languages, corpus))
        return load_recipe(tmp_path / "mtkit.toml")

    return write


@pytest.mark.parametrize(
    ("corpus", "hint"),
    [
        (FILES, 'swap the files: source = "train.2", target = "train.1"'),
        ('path = "train.tsv"', "set source_column = 2 and target_column = 1"),
    ],
)
def test_swapped_sides_fail_a_check_and_are_warned_of(load, tmp_path, corpus, hint) -> None:
    recipe = load(corpus, GERMAN_ENGLISH, "en", "de")
    [fault] = check_recipe_data(recipe).faults
    assert fault.message.startswith("train: source and target seem to be swapped: ")
    assert "of the source lines look like German, and the recipe says en" in fault.message
    assert hint in fault.hint
    workspace = Workspace(tmp_path / "run")
    prepare(recipe, workspace)
    notes = json.loads((workspace.data / "report.json").read_text())["notes"]
    assert f"{fault.message}: {fault.hint}" in notes
    # The letters of the other language aren't taken for a wrong encoding.
    assert not any("looks like" in note and "was read as" in note for note in notes)


def test_swapped_sides_are_found_if_one_language_is_unknown(load) -> None:
    """py3langid knows no Upper Sorbian; German takes its place here."""
    [fault] = check_recipe_data(load(FILES, ENGLISH_GERMAN, "hsb", "en")).faults
    assert "swapped: " in fault.message
    assert not check_recipe_data(load(FILES, ENGLISH_GERMAN, "en", "hsb")).faults


def test_another_language_on_a_side_fails_a_check(load) -> None:
    [fault] = check_recipe_data(load(FILES, ENGLISH_GERMAN, "en", "fr")).faults
    assert "target lines look like German, and the recipe says fr" in fault.message
    assert 'set data.target_language = "de"' in fault.hint
    assert not check_recipe_data(load(FILES, ENGLISH_GERMAN, "en", "de")).faults


BOTH_WAYS = '''path = "train.tsv"
tag = "{}"
[[data.train]]
name = "back"
path = "train.tsv"
source_column = 2
target_column = 1
tag = "{}"'''


@pytest.mark.parametrize("tags", [("<de>", "<en>"), (">>deu<<", ">>eng<<")])
def test_the_tag_of_a_corpus_names_its_target_language(load, tags: tuple[str, str]) -> None:
    found = check_recipe_data(load(BOTH_WAYS.format(*tags), ENGLISH_GERMAN, "en", "de"))
    assert not found.faults
    assert not any(
        "look" in note or "neither its language's" in note for note in found.report.notes
    )


def test_a_wrong_tag_fails_a_check(load) -> None:
    recipe = load(BOTH_WAYS.format("<de>", "<fr>"), ENGLISH_GERMAN, "en", "de")
    [fault] = check_recipe_data(recipe).faults
    assert "of the target lines look like English, and the recipe says fr" in fault.message
    assert fault.hint.startswith("correct its tag, or name another file")
    # Not the tag of a language.
    assert check_recipe_data(load(FILES + '\ntag = "<BT>"', GERMAN_ENGLISH, "en", "de")).faults


def test_a_tag_that_no_corpus_has_is_text(load) -> None:
    recipe = load(FILES + '\ntag = "<de>"', ENGLISH_GERMAN, "en", "de")
    dev = recipe.data.dev.model_copy(update={"tag": "<es>"})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"dev": dev})})
    notes = check_recipe_data(recipe).report.notes
    assert "data.dev: no corpus has its tag <es>, which is ordinary text to the model" in notes
    assert TokenizerChoice.of(recipe).tags == ["<de>"]


def test_a_tag_is_noted_also_where_the_text_is_reused(load, tmp_path: Path) -> None:
    recipe = load(FILES + '\ntag = "<de>"', ENGLISH_GERMAN, "en", "de")
    dev = recipe.data.dev.model_copy(update={"tag": "<es>"})
    wrong = recipe.model_copy(update={"data": recipe.data.model_copy(update={"dev": dev})})
    workspace = Workspace(tmp_path / "run")
    for each, is_noted in ((wrong, True), (recipe, False), (wrong, True)):
        prepare(each, workspace)
        notes = json.loads((workspace.data / "report.json").read_text("utf-8"))["notes"]
        assert any("no corpus has its tag <es>" in note for note in notes) == is_noted


def test_one_language_on_both_sides_is_warned_of(load) -> None:
    simple = [(english, f"Today: {english}") for english, _ in ENGLISH_GERMAN]
    found = check_recipe_data(load(FILES, simple, "en", "en"))
    assert not found.faults
    assert "source and target have the same language, en: if that is a mistake, set" in " ".join(
        found.report.notes
    )
    [fault] = check_recipe_data(load(FILES, ENGLISH_GERMAN, "en", "en")).faults
    assert 'set data.target_language = "de"' in fault.hint


@pytest.mark.parametrize("code", ["gsw", "lb"])
def test_a_language_that_is_unknown_or_rare_is_no_error(load, code: str) -> None:
    """py3langid doesn't know Swiss German, and may take Luxembourgish for German."""
    assert not check_recipe_data(load(FILES, ENGLISH_GERMAN, "en", code)).faults


@pytest.mark.parametrize(
    ("head", "entry", "tail", "name"),
    [
        (PO.format("{1}"), MESSAGE, "", "train.po"),
        (XLIFF_1, UNIT, "</body></file></xliff>", "train.xlf"),
        (XLIFF_2, SEGMENT, "</unit></file></xliff>", "train.xliff"),
    ],
)
def test_the_languages_that_a_file_declares(load, tmp_path, head, entry, tail, name) -> None:
    recipe = load(f'path = "{name}"', ENGLISH_GERMAN, "en", "de")
    entries = "".join(entry.format(*pair) for pair in ENGLISH_GERMAN)
    for declared in ("de", "de_AT", "deu", "und", ""):
        (tmp_path / name).write_text(head.format("en-GB", declared) + entries + tail)
        assert not check_recipe_data(recipe).faults
    (tmp_path / name).write_text(head.format("en", "fr_FR") + entries + tail)
    [fault] = check_recipe_data(recipe).faults
    assert fault.message == (
        f'{tmp_path / name}: its target language is "fr_FR", and the recipe says de'
    )
    assert fault.hint.startswith(
        "if the text is in the recipe's language, correct the file's header"
    )
    assert 'set data.target_language = "fr"' in fault.hint
