"""Keys of corpora that a translator completes: what is read, and what is refused."""

import tomllib
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import FileTrainingCorpus, OneSideTrainingCorpus
from mtkit.recipe.loading import check_recipe, dump_recipe

BASE = """\
name = "x"
[data]
source_language = "en"
target_language = "de"
dev = { source = "a", target = "b" }
[[data.train]]
source = "a.en"
target = "a.de"
"""


def load(corpus: str, *overrides: str) -> Recipe:
    tables = tomllib.loads(f"{BASE}[[data.train]]\n{corpus}\n")
    return check_recipe(tables, "x.toml", Path("/base"), overrides)


def test_the_side_that_is_missing_says_what_kind_it_is() -> None:
    [pairs, text] = load('target = "m.de"\ntranslated_by = "../reverse/model"').data.train
    assert isinstance(pairs, FileTrainingCorpus)
    assert isinstance(text, OneSideTrainingCorpus)
    assert text.is_backwards
    assert text.path == Path("/base/m.de")
    assert text.translated_by == ("/base/../reverse/model",)
    [_, text] = load('source = "m.en"\ntranslated_by = ["one", "/two"]').data.train
    assert isinstance(text, OneSideTrainingCorpus)
    assert not text.is_backwards
    assert text.translated_by == ("/base/one", "/two")
    [_, both] = load('source = "m.en"\ntarget = "m.de"\ntranslated_by = "t"').data.train
    assert isinstance(both, FileTrainingCorpus)


@pytest.mark.parametrize(
    "corpus",
    [
        'target = "m"\ntranslated_by = "reverse"\nsynthesis = { rounds = 2, beam_size = 1 }',
        'source = "m"\ntranslated_by = "t"\nsynthesis = { checked_by = "r", keep = 0.5 }',
        'path = "m.tsv"\ntranslated_by = "t"\nsynthesis = { closest_to_reference = "bleu" }',
    ],
)
def test_written_and_read_again_it_is_the_same(corpus: str) -> None:
    recipe = load(corpus)
    text = dump_recipe(recipe)
    assert check_recipe(tomllib.loads(text), "y.toml", Path("/other")) == recipe


def test_only_a_teacher_of_the_command_line_is_typed() -> None:
    text = 'source = "m"\ntranslated_by = "http://host"'
    text += '\nsynthesis = { checked_by = "http://host", keep = 0.5 }'
    assert load(text).data.train[1].command_line_keys == set()
    typed = {"translated_by": "translated_by", "synthesis": "synthesis.checked_by"}
    for key, expected in typed.items():
        found = load(text, f"data.train.1.{key}=http://host").data.train[1]
        assert found.command_line_keys == {expected}
    # Another key of the corpus is none of the translator.
    assert load(text, "data.train.1.weight=2.0").data.train[1].command_line_keys == set()


@pytest.mark.parametrize(
    ("corpus", "fault"),
    [
        ('target = "m"', r"data\.train\.1\.source: this key is missing; if a translator is to "),
        ('translated_by = "t"', r"data\.train\.1: give source or target"),
        ('target = "m.tsv"\ntranslated_by = "t"', r"m\.tsv isn't a file of lines"),
        ('target = "m.json"\ntranslated_by = "t"', r"m\.json has keyed strings, not lines"),
        ('target = "m"\ntranslated_by = []', r"data\.train\.1: translated_by is empty"),
        ('target = "m"\ntranslated_by = ""', r"data\.train\.1: translated_by is empty"),
        ('target = "m"\ntranslated_by = 5', r"translated_by: expected a model folder, a recipe"),
        (
            'target = "m"\ntranslated_by = "pairs"',
            r'translated_by = "pairs" translates the other way.*needs "reverse"',
        ),
        (
            'source = "m"\ntranslated_by = "reverse"',
            r'translated_by = "reverse" translates the other way.*needs "pairs"',
        ),
        (
            'target = "m"\ntranslated_by = "t"\nsynthesis = { checked_by = "reverse", keep = 0.5 }',
            r'checked_by = "reverse" translates the other way.*needs "pairs"',
        ),
        ('source = "m"\ntranslated_by = [""]', "translated_by: an empty name"),
        (
            'source = "m"\ntarget = "n"\ntranslated_by = "t"\n'
            'synthesis = { closest_to_reference = "bleu", beam_size = 1 }',
            "chooses among beam_size translations",
        ),
        ('source = "m"\ntranslated_by = ["pairs", "t"]', "pairs can't be part of an ensemble"),
        ('source = "m"\ntranslated_by = ["a.toml", "t"]', r"a\.toml can't be part of an ensemble"),
        (
            'source = "m"\ntarget = "n"\nsynthesis = { beam_size = 1 }',
            "synthesis is for a corpus with translated_by",
        ),
        ('source = "m"\ntranslated_by = "t"\nsynthesis = { keep = 0.5 }', "keep needs checked_by"),
        (
            'source = "m"\ntranslated_by = "t"\nsynthesis = { checked_by = "r" }',
            "checked_by is for min_round_trip and keep",
        ),
        (
            'source = "m"\ntranslated_by = "t"\nsynthesis = { rounds = 2 }',
            'rounds is for translated_by = "reverse"',
        ),
        (
            'source = "m"\ntranslated_by = "t"\nsynthesis = { closest_to_reference = "chrf" }',
            "closest_to_reference needs a corpus with both sides",
        ),
        (
            'source = "m"\ntarget = "n"\ntranslated_by = "t"\nalignments = "l"',
            "alignments are of the file's own targets",
        ),
        ('source = "m"\ntranslated_by = "t"\nsynthesis = { kep = 1 }', "did you mean 'keep'"),
    ],
)
def test_faults_are_named(corpus: str, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        load(corpus)


@pytest.mark.parametrize("dev", ['source = "a", target = "b"', 'target = "b"'])
def test_held_out_text_is_translated_by_people(dev: str) -> None:
    text = BASE.replace('source = "a", target = "b"', f'{dev}, translated_by = "reverse"')
    with pytest.raises(MtkitError, match="'translated_by': development and test sets need"):
        check_recipe(tomllib.loads(text), "x.toml", Path("/base"))
